package scenario

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"text/tabwriter"
	"time"
)

// Stats contains the results of one site, or the sum of several sites.
type Stats struct {
	Sites, Clusters, Installations int
	Installed                      int
	InstallTime                    time.Duration // sum of all installations
	Joined                         int           // number of hosts
	Failures                       map[string]int
	Counts                         map[string]int // other events
	Tasks, Polls                   int
	Changes                        uint64 // number of revisions of the stores
	Events                         int
	StoreBytes, LargestStore       int64
	Checks                         int
	kind                           string
}

func newStats(kind string) *Stats {
	return &Stats{Sites: 1, Failures: make(map[string]int), Counts: make(map[string]int), kind: kind}
}

func (s *Stats) count(subject string) { s.Counts[subject]++ }

func (s *Stats) installed(took time.Duration) {
	s.Installed++
	s.InstallTime += took
}

// names are the parts of a sentence that identify an object.
var names = regexp.MustCompile(`host-\d+|"[^"]*"|[0-9a-f]{8}-[0-9a-f-]{27}|\d+(\.\d+)?`)

// longestCause is the maximum length of a cause in characters.
const longestCause = 100

func (s *Stats) failed(why string) {
	cause := []rune(names.ReplaceAllString(why, "…"))
	if len(cause) > longestCause {
		cause = append(cause[:longestCause], '…')
	}
	s.Failures[string(cause)]++
}

func (s *Stats) add(other *Stats) {
	s.Sites += other.Sites
	s.Clusters += other.Clusters
	s.Installations += other.Installations
	s.Installed += other.Installed
	s.InstallTime += other.InstallTime
	s.Joined += other.Joined
	s.Tasks += other.Tasks
	s.Polls += other.Polls
	s.Changes += other.Changes
	s.Events += other.Events
	s.StoreBytes += other.StoreBytes
	s.LargestStore = max(s.LargestStore, other.LargestStore)
	s.Checks += other.Checks
	for subject, n := range other.Failures {
		s.Failures[subject] += n
	}
	for subject, n := range other.Counts {
		s.Counts[subject] += n
	}
}

// Report is the result of a run.
type Report struct {
	Name  string
	Days  int
	Took  time.Duration
	Kinds map[string]*Stats
	Total *Stats
}

// Write writes the report as a table.
func (r *Report) Write(out io.Writer) error {
	t := r.Total
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name string, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...))
	}
	row("scenario", "%s: %d sites, %d days each", r.Name, t.Sites, r.Days)
	row("time", "%s, %.0f days a minute", r.Took.Round(100*time.Millisecond),
		float64(r.Days*t.Sites)/max(r.Took.Minutes(), 1e-9))
	row("clusters", "%d", t.Clusters)
	row("installations", "%d, of which %d succeeded", t.Installations, t.Installed)
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		s := r.Kinds[kind]
		mean := "none"
		if s.Installed > 0 {
			mean = (s.InstallTime / time.Duration(s.Installed)).Round(time.Second).String() + " on average"
		}
		row("  "+kind, "%d of %d at %d sites, %s", s.Installed, s.Installations, s.Sites, mean)
	}
	row("hosts that joined", "%d", t.Joined)
	row("failures", "%d", sum(t.Failures))
	for _, cause := range byCount(t.Failures) {
		row(fmt.Sprintf("  %d", t.Failures[cause]), "%s", cause)
	}
	for _, subject := range slices.Sorted(maps.Keys(t.Counts)) {
		row(subject, "%d", t.Counts[subject])
	}
	row("polls", "%d", t.Polls)
	row("changes", "%d, with %d events for users", t.Changes, t.Events)
	row("store", "%.1f MB per site on average, %.1f MB for the largest site",
		float64(t.StoreBytes)/float64(max(t.Sites, 1))/1e6,
		float64(t.LargestStore)/1e6)
	row("invariants", "checked %d times; all checks passed", t.Checks)
	return w.Flush()
}

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}

// byCount returns the keys sorted by count, the largest count first.
func byCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
}
