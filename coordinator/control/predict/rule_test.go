package predict

import (
	"fmt"
	"testing"
	"time"
	_ "time/tzdata"
)

// coming are the times of coming: on which weekdays of how many weeks, at which times of the clock, one after the other.
type coming struct {
	days   []time.Weekday
	weeks  int
	clocks []string
}

func (c coming) before(day time.Time) (all []time.Time) {
	n := 0
	for ago := 7 * c.weeks; ago > 0; ago-- {
		for _, wd := range c.days {
			if at := day.AddDate(0, 0, -ago); at.Weekday() == wd {
				if clock := c.clocks[n%len(c.clocks)]; clock != "" {
					t, _ := time.Parse("15:04", clock)
					all = append(all, time.Date(at.Year(), at.Month(), at.Day(), t.Hour(), t.Minute(), 0, 0, day.Location()))
				}
				n++
			}
		}
	}
	return all
}

func TestExpect(t *testing.T) {
	seoul, err := time.LoadLocation("Asia/Seoul")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	working := []time.Weekday{time.Monday, time.Tuesday, time.Wednesday, time.Thursday, time.Friday}
	monday := time.Date(2026, 6, 1, 0, 0, 0, 0, seoul)
	nine := []string{"09:00"}
	for name, c := range map[string]struct {
		day   time.Time
		comes []coming
		want  string // from, until and the numbers; empty for nobody
	}{
		"at nine":                            {monday, []coming{{working, 4, nine}}, "09:00-09:00 20/20"},
		"nobody ever":                        {monday, nil, ""},
		"before nine, of UTC the day before": {monday, []coming{{working, 4, []string{"08:50", "09:10"}}}, "08:50-09:10 20/20"},
		"on a Sunday":                        {monday.AddDate(0, 0, -1), []coming{{working, 4, nine}}, ""},
		"every Sunday":                       {monday.AddDate(0, 0, -1), []coming{{[]time.Weekday{time.Sunday}, 4, nine}}, "09:00-09:00 4/4"},
		"not on Mondays":                     {monday, []coming{{working[1:], 4, nine}}, ""},
		"on Mondays only":                    {monday, []coming{{working[:1], 4, nine}}, "09:00-09:00 4/4"},
		"three weeks":                        {monday, []coming{{working, 3, nine}}, "09:00-09:00 15/20"},
		"two weeks":                          {monday, []coming{{working, 2, nine}}, ""},
		"once by chance":                     {monday.AddDate(0, 0, -1), []coming{{working, 4, nine}, {[]time.Weekday{time.Sunday}, 1, nine}}, ""},
		"longer ago":                         {monday.AddDate(0, 0, 28), []coming{{working, 8, nine}}, "09:00-09:00 20/20"},
		"again in the afternoon":             {monday, []coming{{working, 4, nine}, {working, 4, []string{"16:00"}}}, "09:00-09:00 20/20"},
		"within an hour":                     {monday, []coming{{working, 4, []string{"08:30", "09:00", "09:30"}}}, "08:30-09:30 20/20"},
		"over two hours":                     {monday, []coming{{working, 4, []string{"08:00", "09:01", "10:02"}}}, ""},
		"a third out of the ordinary":        {monday, []coming{{working, 4, []string{"09:00", "09:05", "14:00"}}}, "09:00-09:05 14/20"},
		"half out of the ordinary":           {monday, []coming{{working, 4, []string{"09:00", "14:00"}}}, ""},
		"a holiday now and then":             {monday, []coming{{working, 4, []string{"09:00", "09:02", "09:01", "09:03", "09:00", "09:02", ""}}}, "09:00-09:03 18/20"},
		"the clock was changed":              {time.Date(2026, 4, 6, 0, 0, 0, 0, berlin), []coming{{working, 4, nine}}, "09:00-09:00 20/20"},
		"at midnight":                        {monday, []coming{{working, 4, []string{"23:50", "00:10"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var arrivals []time.Time
			for _, one := range c.comes {
				for _, at := range one.before(c.day) {
					arrivals = append(arrivals, at.UTC())
				}
			}
			e, expected := Expect(c.day, arrivals)
			got := ""
			if expected {
				got = e.From.Format("15:04") + "-" + e.Until.Format("15:04") + fmt.Sprintf(" %d/%d", e.Came, e.Days)
				if date(e.From) != date(c.day) || date(e.Until) != date(c.day) {
					t.Errorf("expected at %s, for %s", e.From, c.day)
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if today, _ := Expect(monday, []time.Time{monday.Add(time.Hour)}); today != (Expectation{}) {
		t.Error("the day itself counts")
	}
}
