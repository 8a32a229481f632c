package pagescript

import (
	"bytes"
	"io"
)

// state is the place that an [Injector] has reached in the beginning of a document. A state that the tokenizer of the
// HTML standard also has is named as there.
type state uint8

const (
	stateStart       state = iota // before the first byte
	stateData                     // outside of everything that follows
	stateComment                  // in a comment
	stateBogus                    // in a doctype, or in what browsers take for a comment
	stateTag                      // in the tag <html> or <head>, before an attribute
	stateName                     // in an attribute's name
	stateAfterName                // after it
	stateBeforeValue              // after =
	stateQuoted                   // in a value in quotes
	stateUnquoted                 // in a value without quotes
	stateDone                     // the tag is inserted, or never will be
)

// Injector inserts a tag into a document that passes through it in pieces. The tag comes right after the start of the
// head: after <head>, or before the first thing that cannot stand before the head, such as <title>, <body> or text.
// This place is after the doctype, before every script of the document, and before every policy in it.
//
// A document that ends before that, or begins like UTF-16, stays unchanged. At most 5 bytes are
// held back until the next ones arrive. An Injector needs nothing but its tag to be ready. One goroutine uses it.
type Injector struct {
	// Tag is the text to insert.
	Tag string

	state   state
	kept    []byte // the end of the last piece, undecided
	quote   byte   // that ends the value in progress
	isHead  bool   // the tag in progress is <head>
	comment []byte // the last bytes of the comment in progress, at most 3
	storage [8]byte
}

// Done reports whether the rest passes unchanged.
func (i *Injector) Done() bool { return i.state == stateDone && len(i.kept) == 0 }

// Write passes p on to w, with the tag where it belongs.
func (i *Injector) Write(w io.Writer, p []byte) (int, error) {
	if i.Done() {
		return w.Write(p)
	}
	n := len(p)
	if len(i.kept) > 0 {
		p = append(bytes.Clone(i.kept), p...)
		i.kept = nil
	}
	at, insert := i.scan(p)
	out := p[:at]
	switch {
	case insert:
		out = append(append(append(make([]byte, 0, len(p)+len(i.Tag)), p[:at]...), i.Tag...), p[at:]...)
	case at < len(p):
		i.kept = append(i.storage[:0], p[at:]...)
	}
	if len(out) == 0 {
		return n, nil
	}
	if _, err := w.Write(out); err != nil {
		return 0, err
	}
	return n, nil
}

// Close passes on the bytes held back. It is called at the end of the document.
func (i *Injector) Close(w io.Writer) error {
	i.state = stateDone
	if len(i.kept) == 0 {
		return nil
	}
	_, err := w.Write(i.kept)
	i.kept = nil
	return err
}

// scan follows the document through p. If insert is true, the tag belongs before p[at], and the work is done. Otherwise
// p[:at] can be passed on, and the rest is undecided.
func (i *Injector) scan(p []byte) (at int, insert bool) {
	if i.state == stateStart {
		const mark = "\xef\xbb\xbf"
		switch {
		case bytes.HasPrefix(p, []byte(mark)):
			at = len(mark)
		case bytes.HasPrefix([]byte(mark), p):
			return 0, false
		case p[0] >= 0xfe: // the mark of UTF-16
			i.state = stateDone
			return len(p), false
		}
		i.state = stateData
	}
	for at < len(p) {
		c := p[at]
		if c == 0 || c == '<' && at+1 < len(p) && p[at+1] == 0 { // UTF-16 without a mark
			i.state = stateDone
			return len(p), false
		}
		if i.state == stateData {
			if isSpace(c) {
				at++
				continue
			}
			n, known := 0, true
			if c == '<' {
				n, known = i.open(p[at:])
			}
			switch {
			case !known:
				return at, false
			case n == 0:
				i.state = stateDone
				return at, true
			}
			at += n
			continue
		}
		i.step(c)
		at++
		if i.state == stateData && i.isHead {
			i.state = stateDone
			return at, true
		}
	}
	return at, false
}

// open decides what the < at the start of p begins, such as a comment or a tag. It enters the state for this, and
// returns how many bytes the beginning has, such as 4 for <!--. It returns 0 if such a thing cannot stand before the
// head. It reports false when p is too short to tell.
func (i *Injector) open(p []byte) (n int, known bool) {
	const comment = "<!--"
	switch {
	case len(p) == 1, p[1] == '/' && len(p) == 2:
		return 0, false
	case p[1] == '/' && isLetter(p[2]):
		return 0, true
	case p[1] == '?', p[1] == '/':
		i.state = stateBogus
		return 2, true
	case bytes.HasPrefix(p, []byte(comment)):
		i.state, i.comment = stateComment, i.storage[:0]
		return len(comment), true
	case bytes.HasPrefix([]byte(comment), p):
		return 0, false
	case p[1] == '!':
		i.state = stateBogus
		return 2, true
	}
	for _, name := range []string{"<html", "<head"} {
		have := min(len(p), len(name))
		if !bytes.EqualFold(p[:have], []byte(name[:have])) {
			continue
		}
		switch {
		case len(p) <= len(name):
			return 0, false
		case isSpace(p[len(name)]), p[len(name)] == '/', p[len(name)] == '>':
			i.state, i.isHead = stateTag, name == "<head"
			return len(name), true
		}
	}
	return 0, true
}

// step follows one byte of what open has entered.
func (i *Injector) step(c byte) {
	switch i.state {
	case stateBogus:
		if c == '>' {
			i.state = stateData
		}
		return
	case stateComment:
		i.inComment(c)
		return
	case stateQuoted:
		if c == i.quote {
			i.state = stateTag
		}
		return
	}
	if c == '>' {
		i.state = stateData
		return
	}
	switch space := isSpace(c); i.state {
	case stateTag:
		if !space && c != '/' {
			i.state = stateName // also =, which begins a name here
		}
	case stateName, stateAfterName:
		switch {
		case c == '=':
			i.state = stateBeforeValue
		case c == '/':
			i.state = stateTag
		case space:
			i.state = stateAfterName
		default:
			i.state = stateName
		}
	case stateBeforeValue:
		switch {
		case space:
		case c == '"', c == '\'':
			i.state, i.quote = stateQuoted, c
		default:
			i.state = stateUnquoted
		}
	case stateUnquoted:
		if space {
			i.state = stateTag
		}
	}
}

// inComment follows one byte of a comment. It ends at -->, at --!>, and, if it is empty, at
// > and -> too.
func (i *Injector) inComment(c byte) {
	end := string(i.comment)
	if c == '>' && (end == "" || end == "-" || len(end) >= 2 && end[len(end)-2:] == "--" || len(end) >= 3 && end[len(end)-3:] == "--!") {
		i.state = stateData
		return
	}
	if len(i.comment) == 3 {
		i.comment = append(i.comment[:0], i.comment[1:]...)
	}
	i.comment = append(i.comment, c)
}

// isLetter reports whether c is a letter of ASCII.
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// isSpace reports whether c is white space in HTML.
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' }
