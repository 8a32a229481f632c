package web

import (
	"fmt"
	"html/template"
	"strings"

	"github.com/codehub/gateway/coordinator/words"
)

// InEveryLanguage puts a text into a page in every language and lets the style sheet
// show one, so that switching the language needs no request.
func InEveryLanguage(t words.Text) template.HTML {
	var out strings.Builder
	for _, l := range words.Languages() {
		fmt.Fprintf(&out, `<span class="%s" lang="%[1]s">%s</span>`, l.Code, template.HTMLEscapeString(t.In(l.Code)))
	}
	return template.HTML(out.String()) //nolint:gosec // escaped
}

// languageCSS shows the texts of the page's language and hides the others.
func languageCSS() string {
	var out strings.Builder
	for _, l := range words.Languages() {
		fmt.Fprintf(&out, ":root:not([lang=%s]) .%[1]s{display:none}\n", l.Code)
	}
	return out.String()
}

// templateFuncs are the functions with which the pages' templates output texts.
var templateFuncs = template.FuncMap{"text": InEveryLanguage, "say": say, "bdi": bdi}

// say puts the text with that key into a page in every language. The further arguments are the names of its variables,
// each followed by its value. A value of type [template.HTML] is put into the page unchanged.
func say(key string, variables ...any) (template.HTML, error) {
	if !words.Has(key) || len(variables)%2 != 0 {
		return "", fmt.Errorf("no text %q with %d variables", key, len(variables)/2)
	}
	values := words.Values{}
	var markup []string // pairs of a character of private use, and what takes its place after escaping
	for i := 0; i < len(variables); i += 2 {
		value := variables[i+1]
		if html, ok := value.(template.HTML); ok {
			mark := string(rune(0xE000 + i))
			markup = append(markup, mark, string(html))
			value = mark
		}
		values[fmt.Sprint(variables[i])] = value
	}
	said := string(InEveryLanguage(words.Of(key, values)))
	return template.HTML(strings.NewReplacer(markup...).Replace(said)), nil //nolint:gosec // escaped, or HTML before
}

// bdi isolates a name, whose letters may run from right to left.
func bdi(name string) template.HTML {
	return template.HTML("<bdi>" + template.HTMLEscapeString(name) + "</bdi>") //nolint:gosec // escaped
}
