package workspace

import "time"

// JobProgress is how far a storage job has come, for the people who wait for it.
type JobProgress struct {
	// Step is one of the Step constants of package contract of the storage job.
	Step string `json:"step"`
	// Bytes and Files count what was read from or written to the volume so far.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// Done of Total bytes of this step's work are done; Total is 0 while it is unknown.
	Done  int64 `json:"done"`
	Total int64 `json:"total,omitempty"`
	// Rate is in bytes of Done per second; 0 while it is unknown.
	Rate int64 `json:"rate,omitempty"`
	// At is when the job reported this.
	At time.Time `json:"at"`
}

// Percent returns how much of the step is done, 0 to 100, and whether that is known.
func (p JobProgress) Percent() (percent int, known bool) {
	if p.Total <= 0 {
		return 0, false
	}
	return int(min(100*float64(p.Done)/float64(p.Total), 100)), true
}

// Left returns the remaining time of the step at its present rate, in whole seconds, and whether that time is known.
func (p JobProgress) Left() (left time.Duration, known bool) {
	if p.Total <= 0 || p.Rate <= 0 {
		return 0, false
	}
	seconds := (max(p.Total-p.Done, 0) + p.Rate - 1) / p.Rate
	if seconds > int64(maxLeft/time.Second) {
		return 0, false
	}
	return time.Duration(seconds) * time.Second, true
}

// maxLeft is the longest remaining time that is shown: a job that would take longer hardly makes progress.
const maxLeft = 7 * 24 * time.Hour

// Due reports whether p should replace the saved progress, which is nil if there is none. If p is about another step,
// it should do so immediately. Otherwise it should do so after the interval every, if p differs.
func (p JobProgress) Due(saved *JobProgress, every time.Duration) bool {
	if saved == nil || p.Step != saved.Step {
		return true
	}
	age := p.At.Sub(saved.At)
	if age >= 0 && age < every { // a former leader's clock may have been ahead
		return false
	}
	return p.Bytes != saved.Bytes || p.Files != saved.Files || p.Done != saved.Done || p.Rate != saved.Rate
}

// HomeSize is how much a home holds.
type HomeSize struct {
	// Bytes is the sum of its regular files, Files the number of its files and folders.
	Bytes int64 `db:"home_bytes"`
	Files int64 `db:"home_files"`
	// AtLeast reports that it holds more: the measurement was cut short.
	AtLeast bool `db:"home_at_least"`
	// MeasuredAt is when the home was measured; zero if it never was.
	MeasuredAt time.Time `db:"home_measured_at"`
}
