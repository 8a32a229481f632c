package pagescript

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/words"
)

//go:embed script.js
var source string

// script is the script for browsers. packed is the same script, compressed, for browsers that can decompress it.
var (
	script = withoutComments(withWords(source))
	packed = web.Pack(script)
)

// withWords puts the texts of every language into the script.
func withWords(source string) string {
	return strings.Replace(source, "var texts = {};", "var texts = "+string(words.Section("presence"))+";", 1)
}

// withoutComments returns a script without indentation and without the lines that hold only a comment.
func withoutComments(source string) []byte {
	var out bytes.Buffer
	for line := range strings.Lines(source) {
		if line = strings.TrimLeft(line, " "); line != "\n" && !strings.HasPrefix(line, "//") {
			out.WriteString(line)
		}
	}
	return out.Bytes()
}

// version identifies the current script in its address, so that browsers may cache it forever.
var version = func() string {
	sum := sha256.Sum256(script)
	return hex.EncodeToString(sum[:6])
}()

// ScriptName is the last part of the script's path.
const ScriptName = "presence.js"

// Tag returns the tag that loads the script from below own, the path of the gateway's own resources on the page's
// origin. The script speaks lang, one of package words, and offers to keep the workspace awake for at most keepAwake.
// posted says that the page is the answer to a form; the script does not reload such a page. hides says that the page's
// requests do not name the page's address. The page waits for the script, and the script removes the tag, because some
// frameworks render a whole document and compare the page with it.
func Tag(own, lang, nonce string, keepAwake time.Duration, posted, hides bool) string {
	tag := `<script src="` + own + ScriptName + "?v=" + version + `" data-lang="` + lang + `" data-keep="` +
		strconv.Itoa(int(keepAwake.Hours())) + `"`
	if posted {
		tag += " data-posted"
	}
	if hides {
		tag += " data-hides"
	}
	if nonce != "" {
		tag += ` nonce="` + nonce + `"`
	}
	return tag + "></script>"
}

// ServeScript answers a request for the script. A page that came from another version of this program asks for the
// script at another address. It gets the current script, and the browser does not cache this answer.
func ServeScript(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "text/javascript; charset=utf-8")
	h.Set("Vary", "Accept-Encoding")
	body := script
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = packed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Set("Cache-Control", "no-cache"); r.URL.Query().Get("v") == version {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	}
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // fails only when the client has disconnected
	}
}
