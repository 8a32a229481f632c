package image

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
)

// line is one JSON object of the stream. It concerns one layer, or none.
type line struct {
	Layer  string `json:"id"`
	Status string `json:"status"`
	Detail struct {
		Current int64 `json:"current"`
		Total   int64 `json:"total"`
	} `json:"progressDetail"`
	Error string `json:"error"`
}

// These are the states of a layer that count. The first line about its download gives its size. Any state after the
// download counts as downloaded.
const (
	downloading = "Downloading"
	downloaded  = "Download complete"
	extracting  = "Extracting"
	pulled      = "Pull complete"
)

// refusedError is an error from the engine itself: the registry refuses the image or does not have it.
type refusedError struct{ message string }

// Error implements error.
func (e *refusedError) Error() string { return e.message }

// read reads the stream of a pull to its end. It calls progress whenever the sums over all layers have changed. The sum
// done never shrinks, even if a layer starts again. The error is a refusedError, or an error of reading the stream:
// io.ErrUnexpectedEOF if it is cut off.
func read(stream io.Reader, progress func(done, total int64)) error {
	type layer struct{ done, total int64 }
	layers := make(map[string]layer)
	var lastDone, lastTotal int64
	report := func() {
		var done, total int64
		for _, l := range layers {
			done, total = done+l.done, total+l.total
		}
		done = max(done, lastDone)
		if done != lastDone || total != lastTotal {
			lastDone, lastTotal = done, total
			progress(done, total)
		}
	}
	for dec := json.NewDecoder(bufio.NewReader(stream)); ; {
		var l line
		switch err := dec.Decode(&l); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case l.Error != "":
			return &refusedError{strings.TrimSpace(l.Error)}
		}
		have := layers[l.Layer]
		switch l.Status {
		case downloading:
			// The registry may omit a layer's size.
			have.done, have.total = l.Detail.Current, max(l.Detail.Total, l.Detail.Current, have.total)
		case downloaded, extracting, pulled:
			have.done = have.total
		default:
			continue
		}
		layers[l.Layer] = have
		report()
	}
}
