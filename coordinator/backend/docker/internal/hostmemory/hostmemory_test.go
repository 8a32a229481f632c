package hostmemory

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
)

func TestKernelMemory(t *testing.T) {
	const meminfo = "MemTotal:       4096 kB\nMemFree:         100 kB\nMemAvailable:   1024 kB\nSwapTotal: 0 kB\n"
	for name, c := range map[string]struct {
		meminfo, pressure string
		want              backend.Memory
		wrong             bool
	}{
		"with PSI": {meminfo, "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=1\n",
			backend.Memory{Total: 4 << 20, Available: 1 << 20, Stalled: 0.125}, false},
		"all stalled":    {meminfo, "some avg10=100.00 avg60=1.00\n", backend.Memory{Total: 4 << 20, Available: 1 << 20, Stalled: 1}, false},
		"without PSI":    {meminfo, "", backend.Memory{Total: 4 << 20, Available: 1 << 20}, false},
		"another format": {meminfo, "some avg10=? avg60=1.00\nsome\n", backend.Memory{Total: 4 << 20, Available: 1 << 20}, false},
		"an old kernel":  {"MemTotal: 4096 kB\nMemFree: 100 kB\n", "", backend.Memory{}, true},
		"no number":      {"MemTotal: 4096 kB\nMemAvailable: much kB\n", "", backend.Memory{}, true},
		"another system": {"", "", backend.Memory{}, true},
	} {
		proc := t.TempDir()
		for file, text := range map[string]string{"meminfo": c.meminfo, "pressure/memory": c.pressure} {
			if text == "" {
				continue
			}
			file = filepath.Join(proc, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := kernelMemory(proc)
		if (err != nil) != c.wrong || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}
