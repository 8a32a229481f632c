package simulate

// Unit is the cost of doing something once.
type Unit struct {
	Value float64
	// Of is the unit of the value. From says where it was measured, or what its source is.
	Of, From string
}

// million names the benchmark that measures the statements. It uses a PostgreSQL with a million rows, all in memory,
// and reports the quickest of 15 consecutive calls.
const million = "BenchmarkMillion in coordinator/store"

// Units are the costs of things. Costs that are times are for one core of 2026. MEASURE=1 measures those of [million]
// again.
var Units = map[string]Unit{
	// In this order: a change of the desired state with the limits, and each running workspace that its count reads; a
	// row that the controller saves; a row that a process reads after a notification; a row that a cycle reads, and a
	// row that the cycle skips because it belongs to another shard; a record of activity; a session that is read, a
	// list, the start of a stream, and a comparison.
	"wake":       {0.65, "ms", million},
	"count":      {0.000017, "ms a running workspace", million},
	"save":       {0.61, "ms", million},
	"told":       {0.18, "ms a process", million},
	"cycle":      {0.006, "ms a running workspace", million + ": those of a shard, in PostgreSQL"},
	"shard_scan": {0.0057, "ms a running workspace and shard", million + ": a shard reads the entries of all"},
	"touch":      {0.0117, "ms", million},
	"session":    {0.086, "ms", million},
	"list":       {0.073, "ms", million},
	"stream":     {0.077, "ms", million},
	"compare":    {0.69, "ms", million},

	"plan":         {0.08, "ms a running workspace", million + " and make bench-reconcile: read from the answer, observed, planned"},
	"look":         {120, "ms", "an exec on Kubernetes, estimated; ps on Docker takes 30"},
	"looks":        {4, "a sleep", "package ttl: two before the announcement, one at its end, one that was too soon"},
	"gateway_ms":   {0.025, "ms a message", "make bench-gateway (gateway_ws_cpu)"},
	"messages":     {3, "a second and tab", "an open code-server, untouched"},
	"requests":     {0.1, "a second and person", "assumed: beside what WebSockets carry"},
	"connections":  {6, "a person", "two WebSockets, an event stream and idle connections, on both sides of the gateway"},
	"memory":       {100, "KiB a connection", "two goroutines and two buffers of 32 KiB; make bench-events for streams"},
	"flush":        {1, "ms", "a commit on a disk with a write cache; 3 on network disks"},
	"page":         {60, "ms a page of 1,000", "a listing of an object store, usually"},
	"memory_price": {0.0055, "dollars a GiB and hour", "about what large clouds list in 2026"},
	"cpu_price":    {0.035, "dollars a processor and hour", "the same"},
	"disk_price":   {0.08, "dollars a GB and month", "the same"},
	"store_price":  {0.023, "dollars a GB and month", "the same"},

	"pod_calls": {3, "calls", "a Pod: made, read where it is, deleted"},
	"job_calls": {6, "calls", "a Job, its Secret and its result"},
	"volume":    {2, "calls", "a claim"},
}

func unit(name string) float64 {
	u, ok := Units[name]
	if !ok {
		panic("there is no unit " + name)
	}
	return u.Value
}
