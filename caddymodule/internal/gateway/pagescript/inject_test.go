package pagescript

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/seed"
)

const mark = `<script src="x"></script>`

// inject passes the pieces through an injector.
func inject(t interface{ Fatal(...any) }, pieces ...string) string {
	var out bytes.Buffer
	i := Injector{Tag: mark}
	for _, p := range pieces {
		in := []byte(p)
		if n, err := i.Write(&out, in); n != len(p) || err != nil {
			t.Fatal(n, err)
		}
		clear(in) // it belongs to the caller again
	}
	if err := i.Close(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTheTagStandsAtTheBeginningOfTheHead(t *testing.T) {
	for _, c := range []string{ // | is where the tag belongs
		"<!doctype html><html><head>|<title>",
		"<!DOCTYPE html>\n<HTML lang=\"en\">\n<Head>|\n<meta charset=utf-8>",
		"\xef\xbb\xbf<!doctype html>\r\n<html><head>|",
		"<!-- a <head> in a comment --><html><head profile='>'>|x",
		"<html data-x=\">\" b=a\"> <head/>|",
		"<html =\"><head>|", // a quote in a name begins no value
		"<html a = '>' b><head\n>|",
		"<html a=b'> <head>|'",
		"<!--><head>|--><head>", "<!---><head>|", "<!----><head>|", "<!-- --!><head>|", "<!-- - -> --><head>|", "<!-- <!-- --><head>|",
		"<?xml version='1.0'?><!doctype html \">|\"<head>", "</ a><!doctype html></><head>|",
		"|<title>no head</title>", "<!doctype html>\n|<title>", "<html>|<body>", "<html>|text", "|text", "|<header>", "|<htmlx>", "|<headers>",
		"|</head>", "<html>|<script>", "|<3", "<!doctype html>|<p>",
		// Documents in which nothing shows yet where the tag belongs.
		"", " \n", "<!doctype html>", "<", "<ht", "<html><hea", "<html", "<!", "</", "<!-", "<!-- ", "\xef\xbb", "<head", "<head a=\">",
		// UTF-16, with and without a mark.
		"\xff\xfe<\x00h\x00e\x00a\x00d\x00>\x00", "\xfe\xff\x00<\x00h", "<\x00h\x00e\x00a\x00d\x00>\x00", "\n\x00<\x00", "\x00<\x00h",
	} {
		in, want := strings.Replace(c, "|", "", 1), strings.Replace(c, "|", mark, 1)
		if got := inject(t, in); got != want {
			t.Errorf("%q: got %q", c, got)
		}
		if got := inject(t, strings.Split(in, "")...); got != want {
			t.Errorf("%q, byte by byte: got %q", c, got)
		}
	}
}

// fragments are what generated documents consist of.
var fragments = []string{
	"<!doctype html>", "<!DOCTYPE", "<html>", "<HTML lang=en>", "<html a='", "<head>", "<Head x=\">\">", "<header>", "<!--", "-->", "--!>", "->", "-", "!",
	"<?", "</", "</head>", "<title>", "<body>", "<", ">", "'", "\"", "=", " ", "\n", "\f", "/", "a", "ä", "<meta charset=utf-8>", "<script>", "\x00", "<!",
}

// However a document is cut into pieces, only the tag is added, at most once, and always at the same place. If the tag
// is added, browsers find the script as the first element of the head. They find everything else unchanged.
func TestNothingButTheTagIsAdded(t *testing.T) {
	seed.Rapid(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom(fragments), 0, 14).Draw(t, "document"), "")
		whole := inject(t, in)
		checkInjected(t, in, whole)
		var pieces []string
		for rest := in; rest != ""; {
			n := min(rapid.IntRange(1, 9).Draw(t, "piece"), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if cut := inject(t, pieces...); cut != whole {
			t.Fatalf("%q in pieces %q: %q, whole %q", in, pieces, cut, whole)
		}
	})
}

// checkInjected compares a document with the result of an injector.
func checkInjected(t interface{ Fatalf(string, ...any) }, in, out string) {
	if strings.Contains(in, mark) || out == in {
		return
	}
	if strings.Replace(out, mark, "", 1) != in {
		t.Fatalf("%q became %q", in, out)
	}
	before, err := html.Parse(strings.NewReader(in))
	if err != nil {
		return
	}
	after, err := html.Parse(strings.NewReader(out))
	if err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	script := firstInHead(after)
	if script == nil || script.Data != "script" || len(script.Attr) != 1 || script.Attr[0].Val != "x" {
		t.Fatalf("%q became %q, where the script is not the first element of the head", in, out)
	}
	script.Parent.RemoveChild(script)
	var a, b bytes.Buffer
	if html.Render(&a, before) != nil || html.Render(&b, after) != nil {
		return
	}
	if a.String() != b.String() {
		t.Fatalf("%q is %q without the tag and %q with it", in, a.String(), b.String())
	}
}

// firstInHead returns the first element of the head.
func firstInHead(n *html.Node) *html.Node {
	for d := range n.Descendants() {
		if d.Type == html.ElementNode && d.Data == "head" {
			for c := range d.ChildNodes() {
				if c.Type == html.ElementNode {
					return c
				}
			}
			return nil
		}
	}
	return nil
}

// FuzzInjector: for any bytes, cut in any way, only the tag is added.
func FuzzInjector(f *testing.F) {
	f.Add([]byte("<!doctype html><html lang=en><head><title>x"), 3)
	f.Add([]byte("\xef\xbb\xbf<!-- > --><html a='>'><HEAD>"), 1)
	f.Add([]byte("\xff\xfe<\x00"), 2)
	f.Fuzz(func(t *testing.T, document []byte, piece int) {
		in := string(document)
		whole := inject(t, in)
		if whole != in && strings.Replace(whole, mark, "", 1) != in && !strings.Contains(in, mark) {
			t.Fatalf("%q became %q", in, whole)
		}
		var pieces []string
		for rest := in; rest != ""; {
			n := min(max(piece, 1), len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if cut := inject(t, pieces...); cut != whole {
			t.Fatalf("%q: %q in pieces, %q as a whole", in, cut, whole)
		}
	})
}

// The part after the tag costs nothing.
func TestTheRestPassesAsItIs(t *testing.T) {
	i := Injector{Tag: mark}
	piece := bytes.Repeat([]byte("<p>text"), 1000)
	if _, err := i.Write(io.Discard, []byte("<head>")); err != nil || !i.Done() {
		t.Fatal(err, i)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = i.Write(io.Discard, piece) }); n != 0 {
		t.Errorf("%v allocations for each piece", n)
	}
}

func BenchmarkInjector(b *testing.B) {
	document := []byte("<!doctype html>\n<html lang=\"en\">\n<head>\n" + strings.Repeat("<meta name=x content=y>\n", 400))
	b.SetBytes(int64(len(document)))
	b.ReportAllocs()
	for b.Loop() {
		i := Injector{Tag: mark}
		_, _ = i.Write(io.Discard, document)
	}
}
