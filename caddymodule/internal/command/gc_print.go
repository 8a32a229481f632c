package command

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/docker/go-units"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/workspace"
)

// findingPrinter prints findings one by one, because there may be very many.
type findingPrinter struct {
	finding func(gc.Judgement) error
	end     func(gc.Report) error
}

// findingTable prints a table of findings, and then a summary of all of them. The table has only the findings whose
// verdicts are in only, or all if only is empty.
func findingTable(w io.Writer, delay time.Duration, request gc.Request, only ...gc.Verdict) findingPrinter {
	const row = "%-9s  %-10s  %-9s  %-86s  %s\n"
	counts, sizes := make(map[gc.Verdict]int), make(map[gc.Verdict]int64)
	started := false
	return findingPrinter{
		finding: func(f gc.Judgement) error {
			counts[f.Verdict]++
			sizes[f.Verdict] += max(f.Size, 0)
			if len(only) > 0 && !slices.Contains(only, f.Verdict) {
				return nil
			}
			if !started {
				started = true
				if _, err := fmt.Fprintf(w, row, "VERDICT", "DELETED IN", "SIZE", "ARCHIVE", "REASON"); err != nil {
					return err
				}
			}
			in, bytes := "-", "-"
			switch f.Verdict {
			case gc.Candidate:
				in = f.Left.Round(time.Second).String()
				if f.FirstSeen.IsZero() {
					in = "?"
				}
			case gc.Due:
				in = "now"
			}
			if f.Size != gc.UnknownSize {
				bytes = units.BytesSize(float64(f.Size))
			}
			_, err := fmt.Fprintf(w, row, f.Verdict, in, bytes, f.Key, f.Reason)
			return err
		},
		end: func(r gc.Report) error {
			size := func(v gc.Verdict) string { return units.BytesSize(float64(sizes[v])) }
			note := ""
			switch {
			case counts[gc.Reported] > 0 && request.Unknown:
				note = fmt.Sprintf("What is reported is younger than gc_delay (%s), and kept until then.\n",
					writtenDuration(delay))
			case counts[gc.Reported] > 0:
				note = "What is reported does not fit the database, and is kept; " +
					"see --unknown in caddy codehub gc --help.\n"
			}
			_, err := fmt.Fprintf(w, "%s: %d protected, %d candidates, %d due (%s), %d reported (%s). "+
				"Other objects, which are left alone: %d.\n%s",
				Count(r.Archives, "archive"), counts[gc.Protected], counts[gc.Candidate], counts[gc.Due], size(gc.Due),
				counts[gc.Reported], size(gc.Reported), r.Foreign, note)
			return err
		},
	}
}

// collectedTable prints the results for the due archives, and a summary.
func collectedTable(w io.Writer, delay time.Duration) findingPrinter {
	out := findingTable(w, delay, gc.Request{})
	out.end = func(r gc.Report) error {
		_, err := fmt.Fprintf(w, "%d deleted, %d spared because a workspace needs them again, %d failed. "+
			"Unfinished uploads removed: %d.\n",
			r.Deleted, r.Spared, r.Failed, r.Uploads)
		return err
	}
	return out
}

// foreign is an object that is not an archive and belongs to no workspace.
type foreign struct {
	v1.Finding
	Workspace *workspace.ID `json:"workspace_id"`
	Reason    *gc.Reason    `json:"reason"`
}

// findingJSON prints an array of the API's objects.
func findingJSON(w io.Writer) findingPrinter {
	separator := "["
	return findingPrinter{
		finding: func(f gc.Judgement) error {
			found := v1.FindingOf(f)
			var line any = found
			if f.Verdict == gc.Foreign {
				line = foreign{Finding: found}
			}
			text, err := json.Marshal(line)
			if err == nil {
				_, err = fmt.Fprintf(w, "%s\n  %s", separator, text)
			}
			separator = ","
			return err
		},
		end: func(gc.Report) error {
			if separator == "[" {
				_, err := fmt.Fprintln(w, "[]")
				return err
			}
			_, err := fmt.Fprintln(w, "\n]")
			return err
		},
	}
}
