package supportarchive

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"landfall/appliance/health"
	"landfall/appliance/journal"
	"landfall/appliance/monitoring"
	"landfall/appliance/overview"
)

// maxJournals is the largest number of clusters whose journals an archive contains.
const maxJournals = 10

// Sources are the parts of a running appliance that an archive describes.
type Sources struct {
	Version, DataDir string
	Config           func(io.Writer) error
	Log              *journal.RecentLog
	Monitor          *monitoring.Monitor
	Overview         *overview.Reader
	Journals         journal.Service
	Status           func(context.Context) (any, error)
}

// Write writes the archive of an appliance. If the secrets of the site cannot be collected, it
// writes nothing, because the members could not be redacted.
func (s Sources) Write(ctx context.Context, out io.Writer, at time.Time) error {
	redactor, err := s.Journals.SiteRedactor(ctx)
	if err != nil {
		return err
	}
	redact := redactor.Text
	members := []Member{
		Version(s.Version),
		text("configuration.txt", "the configuration, with the defaults", redact,
			func(_ context.Context, out io.Writer) error { return s.Config(out) }),
		text("log.txt", "the newest lines of the log, from level info", redact,
			func(_ context.Context, out io.Writer) error { return s.Log.WriteAll(out, redact) }),
		{"health.txt", "the checks of /livez and /readyz", s.writeHealth},
		{"metrics.txt", "the metrics, in the text format of Prometheus",
			func(_ context.Context, out io.Writer) error { return s.Monitor.Metrics.Write(out) }},
		inJSON("status.json", "addresses, live ISOs, releases and protections", redact, s.Status),
		inJSON("overview.json", "clusters, hosts and servers by state, and the use of the disk", redact,
			func(context.Context) (any, error) { return s.Overview.Overview() }),
		Files(s.DataDir),
		Process(),
	}
	return Write(ctx, out, at, slices.Concat(members, profiles(), s.journals()), redact)
}

func (s Sources) writeHealth(ctx context.Context, out io.Writer) error {
	for _, result := range slices.Concat(s.Monitor.Live.Results(ctx, health.All),
		s.Monitor.Ready.Results(ctx, health.All)) {
		outcome := "ok"
		if result.Err != nil {
			outcome = result.Err.Error()
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", result.Name, outcome); err != nil {
			return err
		}
	}
	return nil
}

// journals returns the journals of the clusters that are being installed, or that need a person. A
// journal removes the secrets of its cluster itself.
func (s Sources) journals() []Member {
	site, err := s.Overview.Overview()
	if err != nil {
		return nil // the member overview.json reports the error
	}
	var clusters []string
	for _, installation := range site.Installations {
		clusters = append(clusters, installation.ID)
	}
	for _, item := range site.Attention {
		if item.Kind == "cluster" && !slices.Contains(clusters, item.ID) {
			clusters = append(clusters, item.ID)
		}
	}
	var members []Member
	for _, id := range clusters[:min(len(clusters), maxJournals)] {
		members = append(members, Member{"journals/" + id + journal.Extension,
			"journal of a cluster; landfall journal replay reads it",
			func(ctx context.Context, out io.Writer) error {
				_, write, err := s.Journals.Journal(ctx, id)
				if err != nil {
					return err
				}
				return write(out)
			}})
	}
	return members
}
