package explain

import (
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestProgressInWords(t *testing.T) {
	type progress = workspace.JobProgress
	for _, c := range []struct {
		p      progress
		en, ko string
	}{
		{progress{}, "", ""},
		{progress{Step: "swap"}, "putting the files in place", "파일을 제자리에 놓는 중"},
		{progress{Step: "unpack", Total: 100}, "downloading and unpacking, 0 B of 100 B", "내려받아 푸는 중, 100 B 중 0 B"},
		{progress{Step: "unpack", Done: 63, Total: 100, Rate: 1}, "downloading and unpacking, 63 B of 100 B · 1 B/s · 37 s left", "내려받아 푸는 중, 100 B 중 63 B · 1 B/s · 37초 남음"},
		{progress{Step: "unpack", Done: 1, Total: 121, Rate: 1}, "downloading and unpacking, 1 B of 121 B · 1 B/s · 2 min left", "내려받아 푸는 중, 121 B 중 1 B · 1 B/s · 2분 남음"},
		{progress{Step: "verify", Done: 50, Total: 9000, Rate: 1}, "verifying the archive, 50 B of 9.0 kB · 1 B/s · 2 h 30 min left", "보관본을 검증하는 중, 9.0 kB 중 50 B · 1 B/s · 2시간 30분 남음"},
		{progress{Step: "archive", Done: 9_940_000, Rate: 12_345_678}, "packing and uploading, 9.9 MB so far · 12 MB/s", "압축하여 올리는 중, 지금까지 9.9 MB · 12 MB/s"},
		{progress{Step: "archive", Done: 999_600}, "packing and uploading, 1.0 MB so far", "압축하여 올리는 중, 지금까지 1.0 MB"},
		{progress{Step: "archive", Done: 999}, "packing and uploading, 999 B so far", "압축하여 올리는 중, 지금까지 999 B"},
		{progress{Step: "of another release", Done: 1, Total: 2}, "1 B of 2 B", "2 B 중 1 B"},
	} {
		if got := Progress(c.p); got["en"] != c.en || got["ko"] != c.ko {
			t.Errorf("%+v: %+v", c.p, got)
		}
	}
}
