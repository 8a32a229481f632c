// Package words contains every text about workspaces that people read, on pages, in answers of the API, in the pages'
// scripts and on the command line: one file per language, in the folder languages.
//
// A new language is one more file there, such as languages/de.json. It has the keys of en.json, and the language's own
// name under language.name. The name of the file is the tag of the language (BCP 47). Everything else follows from the
// files: which languages are offered, which one a browser gets, and the fields of texts in JSON.
//
// It owns the texts and the set of languages. It must not know when a text is shown, or to whom.
package words

import (
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"
)

//go:embed languages/*.json
var files embed.FS

// Default is the language for people who prefer none of the available ones. Texts for programs and logs are in it, too.
const Default = "en"

// nameKey is the key of a language's own name.
const nameKey = "language.name"

// Language is a language that people can choose.
type Language struct {
	// Code is the tag of the language, and the name of its file and of its field in JSON.
	Code string `json:"code"`
	// Name is the language's own name.
	Name string `json:"name"`
}

// catalog contains the texts of all files.
type catalog struct {
	languages  []Language // Default comes first
	matcher    language.Matcher
	localizers map[string]*i18n.Localizer          // by language
	messages   map[string]map[string]*i18n.Message // by language and key
	fixed      map[string]Text                     // texts without variables, by key
}

// all is the catalog of the embedded files.
var all = func() *catalog {
	c, err := load(files)
	if err != nil {
		panic(err) // the files are embedded, and a test reads them
	}
	return c
}()

// load reads the files of all languages.
func load(files fs.FS) (*catalog, error) {
	paths, err := fs.Glob(files, "languages/*.json")
	if err != nil {
		return nil, err
	}
	bundle := i18n.NewBundle(language.MustParse(Default))
	c := &catalog{messages: map[string]map[string]*i18n.Message{}, localizers: map[string]*i18n.Localizer{},
		fixed: map[string]Text{}}
	for _, p := range paths {
		f, err := bundle.LoadMessageFileFS(files, p)
		if err != nil {
			return nil, fmt.Errorf("reading the texts in %s: %w", p, err)
		}
		code := strings.TrimSuffix(path.Base(p), ".json")
		c.messages[code] = make(map[string]*i18n.Message, len(f.Messages))
		for _, m := range f.Messages {
			c.messages[code][m.ID] = m
		}
	}
	if c.messages[Default] == nil {
		return nil, fmt.Errorf("no texts in the language %q", Default)
	}
	var tags []language.Tag
	codes := slices.DeleteFunc(slices.Sorted(maps.Keys(c.messages)), func(code string) bool { return code == Default })
	for _, code := range append([]string{Default}, codes...) {
		c.localizers[code] = i18n.NewLocalizer(bundle, code)
		c.languages = append(c.languages, Language{code, c.say(code, nameKey, nil)})
		tags = append(tags, language.Make(code))
	}
	c.matcher = language.NewMatcher(tags)
	for key, m := range c.messages[Default] {
		if !strings.Contains(m.Other, "{{") {
			c.fixed[key] = c.text(key, nil)
		}
	}
	return c, nil
}

// say returns a text in one language. If the language lacks the key, the text is in the default language.
func (c *catalog) say(code, key string, values Values) string {
	config := i18n.LocalizeConfig{MessageID: key, TemplateData: values.in(code)}
	if n, ok := values["Count"]; ok {
		config.PluralCount = n
	}
	said, _ := c.localizers[code].Localize(&config) // in case of an error it is in the default language, or empty
	if said == "" {
		return key
	}
	return said
}

// text returns a text in every language.
func (c *catalog) text(key string, values Values) Text {
	t := make(Text, len(c.languages))
	for _, l := range c.languages {
		t[l.Code] = c.say(l.Code, key, values)
	}
	return t
}

// Languages returns the available languages, the default first.
func Languages() []Language { return slices.Clone(all.languages) }

// Known reports whether there is a language with that code.
func Known(code string) bool { return all.localizers[code] != nil }

// Match returns the code of the language that fits an Accept-Language header best.
func Match(accept string) string {
	_, i := language.MatchStrings(all.matcher, accept)
	return all.languages[i].Code
}

// Has reports whether there is a text with that key.
func Has(key string) bool { return all.messages[Default][key] != nil }

// Section returns the texts below a key in every language, as a JSON object for scripts: by language, then by the rest
// of the key. A text is as in the file, with its variables; a text with plural forms is an object with one field per
// form.
func Section(key string) []byte {
	out := map[string]map[string]any{}
	for _, l := range all.languages {
		out[l.Code] = map[string]any{}
		for k := range all.messages[Default] {
			if rest, ok := strings.CutPrefix(k, key+"."); ok {
				m := all.messages[l.Code][k]
				if m == nil {
					m = all.messages[Default][k]
				}
				out[l.Code][rest] = forms(m)
			}
		}
	}
	b, err := json.Marshal(out) // HTML characters are escaped, so it is safe in a page's script
	if err != nil {
		panic(err) // maps of strings have a JSON form
	}
	return b
}

// forms returns a message in the form for scripts: a text, or its plural forms by their names in CLDR.
func forms(m *i18n.Message) any {
	plurals := map[string]string{
		"zero": m.Zero, "one": m.One, "two": m.Two, "few": m.Few, "many": m.Many, "other": m.Other,
	}
	maps.DeleteFunc(plurals, func(_, form string) bool { return form == "" })
	if len(plurals) == 1 {
		return m.Other
	}
	return plurals
}
