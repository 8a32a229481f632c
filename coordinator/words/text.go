package words

import (
	"bytes"
	"encoding/json"
	"unicode"
	"unicode/utf8"
)

// Text is a text in every language, by the language's code. In JSON it is an object with a field for every available
// language. It must not be changed: texts are shared.
type Text map[string]string

// Values are the variables of a text, by name. A value that is a [Text] is inserted in each language. The value named
// Count determines a text's plural form.
type Values map[string]any

// in returns the values in one language.
func (v Values) in(code string) map[string]any {
	out := make(map[string]any, len(v))
	for name, value := range v {
		if t, ok := value.(Text); ok {
			value = t.In(code)
		}
		out[name] = value
	}
	return out
}

// Of returns the text with that key. values are the values of its variables, or nil if it has none.
func Of(key string, values Values) Text {
	if t := all.fixed[key]; t != nil {
		return t
	}
	return all.text(key, values)
}

// Same returns a text that is the same in every language, such as a name.
func Same(s string) Text {
	t := make(Text, len(all.languages))
	for _, l := range all.languages {
		t[l.Code] = s
	}
	return t
}

// Join returns two texts with a separator in between.
func Join(a Text, separator string, b Text) Text {
	t := make(Text, len(all.languages))
	for _, l := range all.languages {
		t[l.Code] = a.In(l.Code) + separator + b.In(l.Code)
	}
	return t
}

// Sentence returns the text with a capital first letter, if the language has capital letters.
func (t Text) Sentence() Text {
	out := make(Text, len(t))
	for code, s := range t {
		if first, size := utf8.DecodeRuneInString(s); size > 0 {
			out[code] = string(unicode.ToUpper(first)) + s[size:]
		}
	}
	return out
}

// In returns the text in a language, or in the default language if it is missing.
func (t Text) In(code string) string {
	if s, ok := t[code]; ok {
		return s
	}
	return t[Default]
}

// String returns the text in the default language, which logs and the command line use.
func (t Text) String() string { return t[Default] }

// Empty reports whether the text is empty.
func (t Text) Empty() bool { return t[Default] == "" }

// MarshalJSON returns an object with every available language.
func (t Text) MarshalJSON() ([]byte, error) {
	out := make(map[string]string, len(all.languages))
	for _, l := range all.languages {
		out[l.Code] = t.In(l.Code)
	}
	return json.Marshal(out)
}

// Inline returns the JSON of an object that has one field per language of a text, beside fields of its own.
func Inline(object any, t Text) ([]byte, error) {
	fields, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	languages, err := json.Marshal(t)
	if err != nil || bytes.Equal(fields, []byte("{}")) {
		return languages, err
	}
	return append(append(languages[:len(languages)-1], ','), fields[1:]...), nil
}
