package api_test

import (
	"fmt"
	"testing"
)

func TestTheReportOverTheAPI(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	ann.Create("first")
	admin.Create("second")
	in.exec(`UPDATE usage_spans SET phase = 'RUNNING', since = now() - interval '90 minutes'`)
	items := func(report map[string]any) (got []string) {
		for _, item := range report["items"].([]any) {
			u := item.(map[string]any)
			got = append(got, fmt.Sprintf("%s %s %.1f", u["owner_username"], u["name"], u["awake_hours"]))
		}
		return got
	}
	if got := fmt.Sprint(items(ann.Do("GET", "/api/v1/report", nil).Object(t))); got != "[ann first 1.5]" {
		t.Errorf("ann's report is %s", got)
	}
	report := ann.Do("GET", "/api/v1/report", nil).Object(t)
	for of, u := range map[string]any{"the workspace": report["items"].([]any)[0], "the day": report["days"].([]any)[len(report["days"].([]any))-1]} {
		by := u.(map[string]any)["awake_by"].(map[string]any)
		if sum := by["input_hours"].(float64) + by["requests_hours"].(float64) + by["work_hours"].(float64) +
			by["keep_awake_hours"].(float64) + by["idle_hours"].(float64); sum == 0 || sum != u.(map[string]any)["awake_hours"] {
			t.Errorf("%s: the causes %v are not %v", of, by, u)
		}
	}
	if got := items(admin.Do("GET", "/api/v1/admin/report", nil).Object(t)); len(got) != 2 {
		t.Errorf("all: %s", got)
	}
	if got := fmt.Sprint(items(admin.Do("GET", "/api/v1/admin/report?user=ANN", nil).Object(t))); got != "[ann first 1.5]" {
		t.Errorf("that of ann is %s", got)
	}
	past := admin.Do("GET", "/api/v1/admin/report?from=2020-01-01&to=2020-02-01", nil).Object(t)
	if len(items(past)) != 0 || past["from"] != "2020-01-01" || past["to"] != "2020-02-01" {
		t.Errorf("in the past: %v", past)
	}
	for _, query := range []string{"from=yesterday", "to=1"} {
		admin.Do("GET", "/api/v1/admin/report?"+query, nil).Problem(t, 400, "invalid-field")
	}
	admin.Do("GET", "/api/v1/admin/report?user=%00", nil).Problem(t, 400, "invalid-field")
	ann.Do("GET", "/api/v1/admin/report", nil).Problem(t, 403, "forbidden")
}
