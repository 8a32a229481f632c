package simulate

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/devenv/plot"
)

var update = flag.Bool("update", false, "simulate a million workspaces, and write tables and plots into the guide")

const (
	// guideWorkspaces is the number of workspaces that the guide simulates, and testWorkspaces is the number in the
	// guide's test.
	guideWorkspaces, testWorkspaces = 1_000_000, 20_000
	// tolerance is how far a number of the guide may differ from the result of a small simulation. They differ because
	// with few people the busiest quarter of an hour is relatively busier than with many.
	tolerance = 0.25
	docs      = "../../../../caddymodule/docs"
	begins    = "<!-- made by make simulate -->"
	ends      = "<!-- end -->"
)

// production returns what the guide simulates: an installation on Kubernetes, with the times that the example
// recommends.
func production(workspaces int) Config {
	s := ttl.DefaultSettings()
	s.Standby, s.Archive = 3*time.Hour, 24*time.Hour
	return Config{
		Workspaces: workspaces, Days: 2, People: Office(), TTL: s, MaxJobs: max(4, workspaces/1000), Seed: 1,
		Times: Times{Start: 1200 * time.Millisecond, Provision: 2 * time.Second, JobStart: 1200 * time.Millisecond, Rate: 60e6},
	}
}

// described explains, in both languages of the guide, what a dependency is and how to raise its limit.
var described = map[string]struct{ en, set, ko, setKo string }{
	"jobs":           {"storage jobs on a Monday", "`coordinator max_jobs`", "월요일의 스토리지 작업", "`coordinator max_jobs`"},
	"looks":          {"looks into workspaces before they sleep", "a longer `ttl standby`; more installations", "잠들기 전 워크스페이스 확인", "`ttl standby`를 길게, 또는 설치를 나눔"},
	"actions":        {"actions on containers and volumes", "`coordinator max_concurrent`, more processes with `coordinator shards`", "컨테이너와 볼륨 작업", "`coordinator max_concurrent`, `coordinator shards`와 함께 프로세스 추가"},
	"planning":       {"processors of the leaders", "`coordinator shards`, `coordinator idle_interval`", "리더의 프로세서", "`coordinator shards`, `coordinator idle_interval`"},
	"database":       {"processors of PostgreSQL", "more of them; a load balancer that keeps a person at one process", "PostgreSQL의 프로세서", "프로세서 추가, 한 사람을 한 프로세스에 붙이는 로드 밸런서"},
	"notify":         {"PostgreSQL's commits with NOTIFY, one at a time", "a disk with a write cache; `synchronous_commit` stays on", "PostgreSQL의 NOTIFY 커밋(한 번에 하나)", "쓰기 캐시가 있는 디스크, `synchronous_commit`은 켠 채로"},
	"limits_lock":    {"the lock under which running ones are counted", "`limits max_running_global 0`", "실행 중 개수를 세는 잠금", "`limits max_running_global 0`"},
	"redis":          {"commands of Redis", "a larger server", "Redis 명령", "더 큰 서버"},
	"store_requests": {"requests to one prefix of the object store", "installations with prefixes of their own", "오브젝트 스토리지 한 접두사의 요청", "설치마다 다른 접두사"},
	"store_listing":  {"listing all archives within `gc_interval`", "`coordinator gc_interval`", "`gc_interval` 안에 모든 보관본 나열", "`coordinator gc_interval`"},
	"gateway_cpu":    {"processors of the gateways", "more processes", "게이트웨이의 프로세서", "프로세스 추가"},
	"gateway_memory": {"memory of the gateways", "more processes, or more memory for each", "게이트웨이의 메모리", "프로세스 추가 또는 메모리 증설"},
	"conntrack":      {"connections that the kernel of a gateway tracks", "`net.netfilter.nf_conntrack_max`", "게이트웨이 커널이 추적하는 연결", "`net.netfilter.nf_conntrack_max`"},
	"api_server":     {"writes to the API server, on Kubernetes", "a priority level of its own; more clusters", "API 서버 쓰기(Kubernetes)", "전용 우선순위 수준, 클러스터 추가"},
	"pods":           {"Pods of one cluster", "more clusters, each an installation", "한 클러스터의 Pod", "클러스터 추가(클러스터마다 설치 하나)"},
	"engine_memory":  {"memory of one machine with 512 GiB, on Docker", "Kubernetes", "메모리 512 GiB인 서버 한 대의 메모리(Docker)", "Kubernetes"},
	"engine":         {"starts of one engine, on Docker", "Kubernetes", "엔진 하나의 시작(Docker)", "Kubernetes"},
}

// holdsTable is the table of what each installation holds.
func holdsTable(r Result, korean bool) string {
	type row struct {
		key   string
		holds []int
	}
	rows := map[string]*row{}
	first := make([]int, len(Installations))
	var keys []string
	for i, in := range Installations {
		for _, h := range Holds(r, in) {
			if first[i] == 0 && h.Only != "docker" { // an engine does not grow with the processes
				first[i] = h.Workspaces
			}
			if rows[h.Key] == nil {
				rows[h.Key] = &row{key: h.Key}
				keys = append(keys, h.Key)
			}
			rows[h.Key].holds = append(rows[h.Key].holds, h.Workspaces)
		}
	}
	var b strings.Builder
	if korean {
		b.WriteString("| 무엇이 먼저 한계에 이르는가 | 프로세스 하나 | 프로세스 열 | 지역 | 무엇을 올리는가 |\n|---|---|---|---|---|\n")
	} else {
		b.WriteString("| what reaches its limit | one process | ten processes | a region | what to raise |\n|---|---|---|---|---|\n")
	}
	for _, key := range keys {
		d := described[key]
		name, set := d.en, d.set
		if korean {
			name, set = d.ko, d.setKo
		}
		fmt.Fprintf(&b, "| %s |", name)
		for i, n := range rows[key].holds {
			text := count(n)
			if n == first[i] {
				text = "**" + text + "**"
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		fmt.Fprintf(&b, " %s |\n", set)
	}
	return b.String()
}

// count writes a number of workspaces with two significant digits.
func count(n int) string {
	if n > 20_000_000 {
		return "> 20,000,000"
	}
	scale := math.Pow(10, math.Floor(math.Log10(float64(max(n, 1))))-1)
	n = int(math.Round(float64(n)/scale) * scale)
	var parts []string
	for ; n >= 1000; n /= 1000 {
		parts = append(parts, fmt.Sprintf("%03d", n%1000))
	}
	parts = append(parts, strconv.Itoa(n))
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

// costs are what a workspace costs.
type costs struct {
	standby      string // the setting; empty: it is always on
	awake, saved float64
	wakes        float64 // a day and used workspace
	month        float64 // dollars
}

// These are the resources that a workspace reserves while it is awake, and the disk that it uses while it is not
// archived.
const (
	reservedGiB, reservedCPUs, homeGB = 0.5, 0.1, 10
	workingDays, monthDays            = 22, 30.4
)

// month returns the monthly cost of a workspace. awake and onDisk are the hours of a working day during which it is
// awake and its home is on the disk.
func month(awake, onDisk, archivedGB, days float64) float64 {
	return days*awake*(reservedGiB*unit("memory_price")+reservedCPUs*unit("cpu_price")) +
		onDisk/24*days/monthDays*homeGB*unit("disk_price") + archivedGB*unit("store_price")
}

// costTable simulates the times after which unused workspaces sleep.
func costTable(workspaces int) []costs {
	all := []costs{{awake: 24, month: month(24, 24, 0, monthDays)}}
	for _, standby := range []time.Duration{10 * time.Minute, 30 * time.Minute, time.Hour, 3 * time.Hour, 8 * time.Hour} {
		c := production(workspaces)
		c.TTL.Standby = standby
		r := Run(c)
		used, starts := 0.0, 0.0
		for _, m := range r.Minutes {
			starts += m.Starts
		}
		for _, k := range c.People.Kinds {
			used += k.Share * k.Used * float64(workspaces*c.Days)
		}
		days := float64(workspaces * c.Days)
		awake, asleep := r.AwakeSeconds/3600/days, r.AsleepSeconds/3600/days
		text := strings.NewReplacer("h0m0s", "h", "m0s", "m").Replace(standby.String())
		all = append(all, costs{text, awake, 1 - awake/24, starts / used, month(awake, awake+asleep, c.People.HomeBytes/1e9, workingDays)})
	}
	return all
}

func costText(all []costs, korean bool) string {
	var b strings.Builder
	never := "always on"
	if korean {
		never = "항상 켜 둠"
		b.WriteString("| `ttl standby` | 근무일 하루의 실행 시간 | 절약 | 쓰는 워크스페이스의 하루 깨우기 | 워크스페이스 하나의 한 달 비용 |\n|---|---|---|---|---|\n")
	} else {
		b.WriteString("| `ttl standby` | awake on a working day | saved | wakes a day, each used one | a month, each workspace |\n|---|---|---|---|---|\n")
	}
	for _, c := range all {
		name := never
		if c.standby != "" {
			name = "`" + c.standby + "`"
		}
		fmt.Fprintf(&b, "| %s | %.1f h | %.0f %% | %.1f | $%.2f |\n", name, c.awake, 100*c.saved, c.wakes, c.month)
	}
	return b.String()
}

// hours returns the points of a plot of one value per minute.
func hours(r Result, value func(Minute) float64) (points []plot.Point) {
	for i, m := range r.Minutes {
		points = append(points, plot.Point{X: float64(i) / 60, Y: value(m)})
	}
	return points
}

// charts are the plots of the guide.
func charts(r Result) map[string]plot.Chart {
	line := func(name string, value func(Minute) float64) plot.Line {
		return plot.Line{Name: name, Points: hours(r, value)}
	}
	region := Installations[len(Installations)-1]
	var shares []plot.Line
	onKubernetes := slices.DeleteFunc(Holds(r, region), func(h Hold) bool { return h.Only == "docker" })
	for _, h := range onKubernetes[:plot.MaxLines] {
		shares = append(shares, line(h.Key, func(m Minute) float64 { return 100 * h.Load(m, r.Config.Workspaces, region) }))
	}
	return map[string]plot.Chart{
		"scaling-day.svg": {Title: "Workspaces on a Monday and a Tuesday", XName: "hours", Lines: []plot.Line{
			line("in use", func(m Minute) float64 { return m.Active }),
			line("running", func(m Minute) float64 { return m.Running }),
			line("asleep", func(m Minute) float64 { return m.Asleep }),
		}},
		"scaling-rates.svg": {Title: "A second", XName: "hours", Lines: []plot.Line{
			line("wakes from the archive", func(m Minute) float64 { return a(m.Restores) }),
			line("from sleep", func(m Minute) float64 { return a(m.Starts - m.Restores) }),
			line("sleeps", func(m Minute) float64 { return a(m.Sleeps) }),
			line("archives", func(m Minute) float64 { return a(m.Archives) }),
		}},
		"scaling-load.svg": {Title: "How much of each limit a region with a million workspaces uses, %", XName: "hours", Lines: shares},
	}
}

// TestSimulate prints the figures of a million workspaces. `make simulate` runs this test with -update, which also
// writes the guide's tables and plots.
func TestSimulate(t *testing.T) {
	if !*update {
		t.Skip("make simulate says that it is to run")
	}
	for _, name := range slices.Sorted(maps.Keys(Units)) {
		fmt.Printf("unit %s: %g %s; %s\n", name, Units[name].Value, Units[name].Of, Units[name].From)
	}
	began := time.Now()
	r := Run(production(guideWorkspaces))
	fmt.Printf("figure simulate_seconds %.1f s\n", time.Since(began).Seconds())
	var peak Minute
	for _, m := range r.Minutes {
		peak.Running, peak.Active, peak.Jobs = max(peak.Running, m.Running), max(peak.Active, m.Active), max(peak.Jobs, m.Jobs)
		peak.Starts, peak.Sleeps, peak.Restores = max(peak.Starts, m.Starts), max(peak.Sleeps, m.Sleeps), max(peak.Restores, m.Restores)
	}
	for name, value := range map[string]float64{
		"running": peak.Running, "in_use": peak.Active, "jobs": peak.Jobs,
		"wakes_per_s": a(peak.Starts), "restores_per_s": a(peak.Restores), "sleeps_per_s": a(peak.Sleeps),
	} {
		fmt.Printf("figure simulate_peak_%s %.1f each\n", name, value)
	}
	for _, in := range Installations {
		for i, h := range Holds(r, in) {
			fmt.Printf("figure simulate_%s_%d_%s %d workspaces\n", in.Name, i+1, h.Key, h.Workspaces)
		}
		all, limit := in.Connections()
		fmt.Printf("figure simulate_%s_connections %d of_%d\n", in.Name, all, limit)
	}
	money := costTable(guideWorkspaces / 20)
	for _, c := range money {
		fmt.Printf("figure simulate_saved_%s %.3f part\n", cmp.Or(c.standby, "never"), c.saved)
		fmt.Printf("figure simulate_month_%s %.2f dollars\n", cmp.Or(c.standby, "never"), c.month)
	}
	for name, chart := range charts(r) {
		if err := os.WriteFile(filepath.Join(docs, name), []byte(chart.SVG()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for file, korean := range map[string]bool{"scaling.md": false, "scaling.ko.md": true} {
		rewrite(t, file, holdsTable(r, korean), costText(money, korean))
	}
}

// rewrite replaces the tables in a guide, each between its two comments.
func rewrite(t *testing.T, file string, tables ...string) {
	t.Helper()
	path := filepath.Join(docs, file)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	rest := string(text)
	for _, table := range tables {
		before, after, ok := strings.Cut(rest, begins)
		_, after, closed := strings.Cut(after, ends)
		if !ok || !closed {
			t.Fatalf("%s has no place for another table", path)
		}
		b.WriteString(before + begins + "\n" + table + ends)
		rest = after
	}
	if err := os.WriteFile(path, []byte(b.String()+rest), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestTheGuide: the guides' numbers for a million workspaces match those of a small simulation of the present code.
func TestTheGuide(t *testing.T) {
	r := Run(production(testWorkspaces))
	money := costTable(testWorkspaces)
	for file, korean := range map[string]bool{"scaling.md": false, "scaling.ko.md": true} {
		text, err := os.ReadFile(filepath.Join(docs, file))
		if err != nil {
			t.Fatal(err)
		}
		compared := 0
		for i, want := range []string{holdsTable(r, korean), costText(money, korean)} {
			parts := strings.Split(string(text), begins)
			if len(parts) != 3 {
				t.Fatalf("%s has %d tables of make simulate, want 2", file, len(parts)-1)
			}
			table, _, _ := strings.Cut(parts[i+1], ends)
			compared += compare(t, file, strings.TrimSpace(table), strings.TrimSpace(want))
		}
		if compared < 50 {
			t.Errorf("%s: only %d numbers were compared", file, compared)
		}
	}
}

var number = regexp.MustCompile(`\d[\d,]*(\.\d+)?`)

// compare compares the numbers of two tables row by row, by the rows' names. Their orders may differ, because close
// rows may change places.
func compare(t *testing.T, file, guide, want string) (compared int) {
	t.Helper()
	rows := func(text string) map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(text) {
			name, rest, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			all[name] = rest
		}
		return all
	}
	has, should := rows(guide), rows(want)
	if len(has) != len(should) {
		t.Errorf("%s has %d rows, want %d: run make simulate", file, len(has), len(should))
	}
	for name, row := range should {
		numbers, theirs := number.FindAllString(row, -1), number.FindAllString(has[name], -1)
		if len(numbers) != len(theirs) {
			t.Errorf("%s says of %q %q, want %q: run make simulate", file, name, has[name], row)
			continue
		}
		for i := range numbers {
			is, other := value(numbers[i]), value(theirs[i])
			if compared++; math.Abs(is-other) > max(tolerance*max(is, other), 0.3) {
				t.Errorf("%s says of %q %s, and the simulation %s: run make simulate", file, name, theirs[i], numbers[i])
			}
		}
	}
	return compared
}

func value(text string) float64 {
	v, _ := strconv.ParseFloat(strings.ReplaceAll(text, ",", ""), 64)
	return v
}

// TestCourses checks the courses from which the rates are computed: what the planner does in a day.
func TestCourses(t *testing.T) {
	restore, start, sleep, archive := Courses()
	for name, c := range map[string]Course{"restore": restore, "start": start, "sleep": sleep, "archive": archive} {
		if c.Saves < 2 || c.Told < 2 || c.Saves > 8 || c.Calls() < 1 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if start.Asks != 0 || sleep.Asks != 0 || restore.Asks == 0 || archive.Asks == 0 {
		t.Errorf("questions to the store: %d %d %d %d", start.Asks, sleep.Asks, restore.Asks, archive.Asks)
	}
}

// TestRun: the same seed gives the same day. If there are few places for jobs, people wait on a Monday. Every workspace
// is always in exactly one state.
func TestRun(t *testing.T) {
	c := production(5000)
	one, two := Run(c), Run(c)
	if !slices.Equal(one.Minutes, two.Minutes) || len(one.RestoreWaits) == 0 {
		t.Fatal("two runs differ, or nothing happens")
	}
	for i, m := range one.Minutes {
		if sum := m.Running + m.Asleep + m.Archived; m.Active < 0 || sum > float64(c.Workspaces) || sum+m.Jobs+m.Waiting < float64(c.Workspaces) {
			t.Fatalf("minute %d: %+v", i, m)
		}
	}
	wait := func(jobs int) time.Duration {
		c := c
		c.MaxJobs = jobs
		return slices.Max(Run(c).RestoreWaits)
	}
	if few, many := wait(1), wait(50); few < time.Minute || many > 90*time.Second {
		t.Errorf("the longest waits are %s and %s", few, many)
	}
}

// TestHolds: the guide describes every dependency, each dependency holds some workspaces, and a larger installation
// holds at least as many as a smaller one.
func TestHolds(t *testing.T) {
	r := Run(production(5000))
	for _, in := range Installations {
		for _, h := range Holds(r, in) {
			if described[h.Key].en == "" || h.Workspaces <= 0 || h.Peak <= 0 {
				t.Errorf("%s: %s holds %d at %g", in.Name, h.Key, h.Workspaces, h.Peak)
			}
		}
	}
	first := func(in Installation) int { return Holds(r, in)[0].Workspaces }
	if first(Installations[0]) > first(Installations[1]) || first(Installations[1]) > first(Installations[2]) {
		t.Error("a larger installation holds less")
	}
}
