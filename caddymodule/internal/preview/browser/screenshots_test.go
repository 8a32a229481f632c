package browser

import (
	"cmp"
	"context"
	_ "embed"
	"flag"
	"fmt"
	"html/template"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/words"
)

var (
	screenshots = flag.String("screenshots", "", "folder to which TestScreenshots writes; nothing is written without it")
	onlyPages   = flag.String("page", "", "text that the address of a page in TestScreenshots must have, such as wake")
)

// The themes and widths of the screenshots, in CSS pixels.
var (
	themes = []string{"light", "dark"}
	widths = []int{390, 820, 1280}
)

// heightMax is how much of a long page a screenshot shows.
const heightMax = 4000

// sheetSource is the contact sheet.
//
//go:embed screenshots.html
var sheetSource string

// picture is one view of a page, in every language, theme and width.
type picture struct {
	Name  string
	Files []string
}

// TestScreenshots writes pictures of every page, with every view that its navigation leads to, and a contact sheet.
// `make screenshots` runs it.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("make screenshots says where to write them")
	}
	var paths []string
	for _, path := range pagesOf(open(t), "en") {
		if strings.Contains(path, *onlyPages) {
			paths = append(paths, path)
		}
	}
	if len(paths) == 0 {
		t.Fatalf("no page has %q in its address", *onlyPages)
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	var sheet struct {
		sync.Mutex
		pictures []picture
	}
	var done atomic.Int32
	each(t, paths, func(b *tab, path string) {
		made := b.pictures(path)
		b.t.Logf("%d of %d: %s", done.Add(1), len(paths), path)
		sheet.Lock()
		defer sheet.Unlock()
		sheet.pictures = append(sheet.pictures, made...)
	})
	slices.SortFunc(sheet.pictures, func(a, b picture) int { return cmp.Compare(a.Name, b.Name) })
	f, err := os.Create(filepath.Join(*screenshots, "index.html"))
	if err == nil {
		err = template.Must(template.New("").Parse(sheetSource)).Execute(f, sheet.pictures)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("see file://%s", f.Name())
}

// pagesOf returns the paths of all pages that the index links in a language.
func pagesOf(b *tab, language string) []string {
	b.load("/", "en")
	return strings.Fields(js[string](b, fmt.Sprintf(
		`[...document.querySelectorAll("a[href*='lang=%s']")].map((a) => a.pathname).join(" ")`, language)))
}

// each visits every page once, in one browser per processor.
func each(t *testing.T, paths []string, visit func(b *tab, path string)) {
	t.Helper()
	left := make(chan string, len(paths))
	for _, path := range paths {
		left <- path
	}
	close(left)
	t.Run("browsers", func(t *testing.T) {
		for i := range min(runtime.GOMAXPROCS(0), len(paths)) {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				b := open(t)
				for path := range left {
					t.Run(path, func(t *testing.T) {
						b := *b
						b.t = t
						visit(&b, path)
					})
				}
			})
		}
	})
}

// pictures takes the pictures of a page and of each of its views.
func (b *tab) pictures(path string) (all []picture) {
	b.t.Helper()
	files := map[string][]string{}
	for _, language := range words.Languages() {
		b.states(path, language.Code, func(name string) {
			b.until("the plots have lines", `!document.querySelector(".plot svg:empty")`)
			if files[name] == nil {
				all = append(all, picture{Name: name})
			}
			for _, theme := range themes {
				for _, width := range widths {
					file := fmt.Sprintf("%s.%s-%s-%d.png", strings.ReplaceAll(name, "/", "."), language.Code, theme, width)
					b.look(theme, width)
					b.picture(file)
					files[name] = append(files[name], file)
				}
			}
		})
	}
	for i := range all {
		all[i].Files = files[all[i].Name]
	}
	return all
}

// look sets the theme and the width of the page, and disables animations.
func (b *tab) look(theme string, width int) {
	b.t.Helper()
	b.call(chromedp.EmulateViewport(int64(width), 900), func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: theme}, {Name: "prefers-reduced-motion", Value: "reduce"},
			},
		})
		return chromedp.Void{}, err
	})
}

// picture takes a picture of the page in its current state.
func (b *tab) picture(file string) {
	b.t.Helper()
	size := js[[]float64](b, `(scrollTo(0, 0), [innerWidth, document.documentElement.scrollHeight])`)
	yes := true
	b.call(func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		shot, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			CaptureBeyondViewport: &yes, OptimizeForSpeed: &yes,
			Clip: &page.Viewport{Width: size[0], Height: math.Min(math.Max(size[1], 1), heightMax), Scale: 1},
		})
		if err == nil {
			err = os.WriteFile(filepath.Join(*screenshots, file), shot.Data, 0o600)
		}
		return chromedp.Void{}, err
	})
}

// call runs steps in the tab.
func (b *tab) call(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}
