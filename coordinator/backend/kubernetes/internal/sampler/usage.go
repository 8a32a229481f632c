package sampler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// usageMark is in the command line of the command that counts a home, so that a look does not mistake that command for
// work.
const usageMark = "codehub-usage"

// usageScript prints the total size of the home's regular files in bytes, the number of files and folders, and whether
// the count is complete. The script stops after the given number of seconds. It skips files and folders that the
// workspace's user may not read. It needs sh, nice, timeout, find, stat and awk. A file with several names counts once.
// [fmt.Sprintf] inserts the folder and the seconds.
const usageScript = `: ` + usageMark + `
cd %s || exit 1
{ nice -n 19 timeout %d find . -xdev ! -path . -exec stat -c '%%f %%s %%h %%i' {} + 2>/dev/null; echo "end $?"; } |
awk '$1 == "end" { all = $2 == 0; next }
	$3 > 1 && substr($1, 1, 1) == "8" && length($1) == 4 && seen[$4]++ { n++; next }
	{ n++ } substr($1, 1, 1) == "8" && length($1) == 4 { s += $2 } END { printf "%%.0f %%.0f %%d\n", s, n, all }'`

// Usage counts the content of a workspace's home for at most limit, by a command in its container. The workspace
// controls the answer, so use it only for display. If the container does not run, the error is [backend.ErrNotFound].
func Usage(ctx context.Context, api *cluster.Client, p *corev1.Pod, limit time.Duration) (u backend.Usage, err error) {
	if running(p) == nil {
		return u, fmt.Errorf("pod %s: %w", p.Name, backend.ErrNotFound)
	}
	script := fmt.Sprintf(usageScript, spec.Home, max(1, int(limit/time.Second)))
	out, code, err := shell(ctx, api, p, limit+lookLimit, script)
	doing := "counting the home of pod " + p.Name
	switch {
	case err != nil:
		return u, cluster.Wrap(doing, err)
	case code != 0:
		return u, fmt.Errorf("%s: its shell ends with %d", doing, code)
	}
	if u, err = parseUsage(out); err != nil {
		return u, fmt.Errorf("%s: %w", doing, err)
	}
	return u, nil
}

// parseUsage parses the output of usageScript.
func parseUsage(out []byte) (u backend.Usage, err error) {
	var all int
	if _, err := fmt.Sscanf(string(bytes.TrimSpace(out)), "%d %d %d", &u.Bytes, &u.Files, &all); err != nil {
		return backend.Usage{}, errors.New("it does not print three numbers; a count needs sh, nice, timeout, find, " +
			"stat and awk in the image")
	}
	if u.Bytes < 0 || u.Files < 0 {
		return backend.Usage{}, errors.New("it prints negative numbers")
	}
	u.AtLeast = all != 1
	return u, nil
}
