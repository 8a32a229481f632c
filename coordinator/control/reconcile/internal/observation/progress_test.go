package observation

import (
	"testing"
	"time"

	"github.com/codehub/gateway/storagejob/contract"
)

// TestMeter: the rate is that of the present step, and changes when the speed of the step changes.
func TestMeter(t *testing.T) {
	const mb = 1e6
	unpack := func(transferred int64) contract.ProgressLine {
		return contract.ProgressLine{Step: contract.StepUnpack, Bytes: 2 * transferred, Files: 3, Transferred: transferred, Total: 1000 * mb}
	}
	pack := func(bytes int64) contract.ProgressLine {
		return contract.ProgressLine{Step: contract.StepArchive, Bytes: bytes, Transferred: bytes / 2}
	}
	type look struct {
		after time.Duration
		line  contract.ProgressLine
	}
	// steady looks every second at a job with a constant rate.
	steady := func(from, rate int64, seconds int) (looks []look) {
		for i := range seconds {
			looks = append(looks, look{time.Second, unpack(from + int64(i+1)*rate)})
		}
		return looks
	}
	first := look{0, unpack(0)}
	for _, c := range []struct {
		name        string
		home        int64
		looks       []look
		done, total int64
		least, most int64 // the rate
	}{
		{"a first line says nothing about the rate", 0, []look{{0, unpack(500 * mb)}}, 500 * mb, 1000 * mb, 0, 0},
		{"too soon for a rate", 0, []look{first, {400 * time.Millisecond, unpack(90 * mb)}}, 90 * mb, 1000 * mb, 0, 0},
		{"steady", 0, append([]look{first}, steady(0, 10*mb, 5)...), 50 * mb, 1000 * mb, 10 * mb, 10 * mb},
		{"from where another leader has seen it", 0, append([]look{{0, unpack(500 * mb)}}, steady(500*mb, 10*mb, 3)...), 530 * mb, 1000 * mb, 10 * mb, 10 * mb},
		{"looks at the same line twice", 0, []look{first, {time.Second, unpack(10 * mb)}, {10 * time.Millisecond, unpack(10 * mb)}}, 10 * mb, 1000 * mb, 10 * mb, 10 * mb},
		{"slower than it was", 0, append(append([]look{first}, steady(0, 10*mb, 5)...), steady(50*mb, mb, 20)...), 70 * mb, 1000 * mb, 1 * mb, 3 * mb},
		{"it stands still", 0, append(append([]look{first}, steady(0, 10*mb, 5)...), look{31 * time.Second, unpack(50 * mb)}), 50 * mb, 1000 * mb, 0, 0},
		{"it began again", 0, append(append([]look{first}, steady(0, 10*mb, 5)...), look{time.Second, unpack(mb)}), mb, 1000 * mb, 0, 0},
		{"another step", 0, append(append([]look{first}, steady(0, 10*mb, 5)...), look{time.Second, contract.ProgressLine{Step: contract.StepSwap, Transferred: 1000 * mb, Total: 1000 * mb}}), 0, 0, 0, 0},
		{"a home of known size", 400 * mb, []look{{0, pack(0)}, {time.Second, pack(100 * mb)}}, 100 * mb, 400 * mb, 100 * mb, 100 * mb},
		{"a home of unknown size", 0, []look{{0, pack(0)}, {time.Second, pack(100 * mb)}}, 100 * mb, 0, 100 * mb, 100 * mb},
		{"a home that has grown", 50 * mb, []look{{0, pack(0)}, {time.Second, pack(100 * mb)}}, 100 * mb, 0, 100 * mb, 100 * mb},
	} {
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		var m meter
		for _, l := range c.looks {
			now = now.Add(l.after)
			m.add(l.line, c.home, now)
		}
		p := m.progress()
		last := c.looks[len(c.looks)-1].line
		if p.Step != last.Step || p.Bytes != last.Bytes || p.Files != last.Files || p.Done != c.done || p.Total != c.total || !p.At.Equal(now) || p.Rate < c.least || p.Rate > c.most {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}
