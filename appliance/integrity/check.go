package integrity

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jonboulle/clockwork"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/hosted/maestro"
	"landfall/appliance/keyring"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Problem is damage with its meaning for a person.
type Problem struct {
	store.Problem
	Meaning string `json:"meaning"`
	Remedy  string `json:"remedy"`
}

// Report is the result of a check.
type Report struct {
	Whole    bool      `json:"whole"`
	Pages    uint64    `json:"pages"`
	Rows     uint64    `json:"rows"`
	Files    int       `json:"files"`
	Problems []Problem `json:"problems"`
	// Elsewhere is the number of files whose content only other members have.
	Elsewhere int `json:"elsewhere,omitempty"`
}

// Explain adds the meaning of each problem.
func Explain(found *store.Report) *Report {
	report := &Report{Pages: found.Pages, Rows: found.Rows, Files: found.Files, Elsewhere: found.Elsewhere,
		Problems: []Problem{}, Whole: len(found.Problems) == 0}
	for _, problem := range found.Problems {
		explained := Problem{Problem: problem}
		explained.Meaning, explained.Remedy = explain(problem)
		report.Problems = append(report.Problems, explained)
	}
	return report
}

// meanings says what is missing if a row is damaged, by the beginning of its key.
var meanings = []struct{ prefix, meaning string }{
	{"/clusters/", "the cluster is left out of all lists, and nothing can change it"},
	{"/hosts/", "the host is left out of all lists; its cluster can't be installed until the row is removed"},
	{"/infra-envs/", "the infra-env is left out of all lists, and its images can't be made again"},
	{"/reports/", "a report of a host is missing; its agent sends it again"},
	{"/validations/", "results of validations are missing; they are computed again"},
	{"/events/", "an event is missing in the list of events"},
	{"/files/", "a file of a cluster can't be downloaded, such as its kubeconfig or its logs"},
	{"/recipes/", "the discovery image of an infra-env is made again from its description"},
	{"/subscriptions/", "AMS is not told about changes of the cluster"},
	{"/subscription-replies/", "it is not known what AMS was told about the cluster"},
	{"/kubernetes/", "an object of the Kubernetes API is left out of lists; apply its manifest again"},
	{"/accounts/", "the account can't log in"},
	{"/tokens/", "the token is refused"},
	{"/sessions/", "the person must log in again"},
	{"/bmcs/", "the server is left out of all lists, and its power can't be controlled"},
	{maestro.HoldPrefix(), "nothing is sent to the management cluster until a person releases it"},
	{"/settings/", "settings of the site are missing"},
	{"the entry ", "older states of rows that end with this entry can't be read"},
}

func explain(problem store.Problem) (meaning, remedy string) {
	const (
		repair  = "landfall check --repair removes it and keeps its bytes; or restore a backup"
		restore = "restore a backup, or enter again what is missing; landfall check --repair ends this notice"
	)
	switch problem.Kind {
	case store.ProblemIndex:
		return "objects may be missing in lists of other objects", "landfall check --repair derives it again"
	case store.ProblemReference:
		return "a file refers to nothing, and occupies space", "landfall check --repair removes it"
	case store.ProblemMissing:
		return "changes that were acknowledged are lost", restore
	case store.ProblemPage:
		return "the rows of the page can't be read",
			"the next start writes the database anew without the page; restore a backup if rows are missing then"
	}
	for _, each := range meanings {
		if strings.HasPrefix(problem.Where, each.prefix) {
			return each.meaning, repair
		}
	}
	switch problem.Where {
	case keyring.FileName:
		return "no value can be read", "name the key with which data.key is sealed, in LANDFALL_SEAL_KEY_FILE or " +
			"LANDFALL_SEAL_PASSPHRASE_FILE; if it is lost, or data.key is damaged, restore both from a backup"
	case sitekey.FileName:
		return "the appliance does not start", "restore site.key from a backup, or remove it: the next start makes a " +
			"new key, which recipients of signed files must trust again"
	}
	return "it is left out", repair
}

// Checker checks and repairs the stored data of a running appliance.
type Checker struct {
	db    *store.DB
	clock clockwork.Clock
}

// NewChecker returns a checker.
func NewChecker(db *store.DB, clock clockwork.Clock) *Checker { return &Checker{db, clock} }

// Check reads everything that is stored.
func (c *Checker) Check(ctx context.Context) (*Report, error) {
	found, err := c.db.Check(ctx)
	if err != nil {
		return nil, err
	}
	return Explain(found), nil
}

// Repair removes what can't be read, and derives what can be derived. It returns a new check.
func (c *Checker) Repair(ctx context.Context) (*Report, error) {
	if err := Repair(ctx, c.db, c.clock); err != nil {
		return nil, err
	}
	return c.Check(ctx)
}

// Repair removes damaged rows of a store, and derives its indexes again.
func Repair(ctx context.Context, db *store.DB, clock clockwork.Clock) error {
	now := clock.Now()
	if err := db.Repair(ctx, func(tx *store.Tx, key string) error {
		return errors.Join(replaceReply(tx, key, now.UTC()), maestro.ReplaceHold(tx, key, now))
	}); err != nil {
		return err
	}
	return derive(ctx, db, now, nil)
}

// replaceReply replaces a removed row with what AMS was told about a cluster. Without a row, the
// relay would create a second subscription.
func replaceReply(tx *store.Tx, removed string, now time.Time) error {
	cluster, ok := strings.CutPrefix(removed, outbox.RecordedRows.Prefix())
	if !ok {
		return nil
	}
	if err := outbox.Lost(tx, cluster, now); err != nil {
		return fmt.Errorf("note that it is unknown what AMS was told about the cluster %s: %w", cluster, err)
	}
	return nil
}
