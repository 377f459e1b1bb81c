package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-openapi/swag/conv"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/record"
	"landfall/appliance/hosted/bundle"
	hosted "landfall/appliance/hosted/record"
	"landfall/appliance/keyring"
	"landfall/store"
)

// Kinds of [Object], in the order in which people see them.
const (
	KindCluster      = "cluster"
	KindHost         = "host"
	KindInfraEnv     = "infra-env"
	KindSubscription = "subscription" // of a cluster in AMS
	KindHosted       = "hosted-cluster"
	KindBundle       = "bundle" // of manifests for a management cluster
)

func kinds() []string {
	return []string{KindCluster, KindHost, KindInfraEnv, KindHosted, KindSubscription, KindBundle}
}

// Object is an object that a restore may set back.
type Object struct {
	Kind string `json:"kind"`
	ID   string `json:"id"`
	Name string `json:"name"`
	// Revision grows with each change of the object.
	Revision uint64    `json:"revision"`
	Status   string    `json:"status,omitempty"`
	Updated  time.Time `json:"updated,omitzero"`
	// Consumer is the management cluster of a bundle.
	Consumer string `json:"consumer,omitempty"`
}

// Objects are the objects of a site at a revision.
type Objects struct {
	Time     time.Time `json:"time"`
	Revision uint64    `json:"revision"`
	Objects  []Object  `json:"objects"`
}

// readObjects lists the objects in a store. Damaged rows are left out, as everywhere.
func readObjects(db *store.DB, at time.Time) (*Objects, error) {
	all := &Objects{Time: at.UTC(), Objects: []Object{}}
	err := db.View(func(tx *store.Tx) error {
		all.Revision = tx.Revision()
		add := func(o Object, revision uint64, err error) error {
			o.Revision = revision
			all.Objects = append(all.Objects, o)
			return err
		}
		names := map[string]string{} // of clusters
		return errors.Join(
			record.Clusters.Each(tx, "", func(id string, c *record.Cluster) error {
				revision, err := record.Clusters.Modified(tx, id)
				names[id] = c.API.Name
				return add(Object{Kind: KindCluster, ID: id, Name: c.API.Name, Status: conv.Value(c.API.Status),
					Updated: time.Time(c.API.UpdatedAt)}, revision, err)
			}),
			record.Hosts.Each(tx, "", func(key string, h *record.Host) error {
				revision, err := record.Hosts.Modified(tx, key)
				return add(Object{Kind: KindHost, ID: key, Name: hostname(tx, key, h),
					Status: conv.Value(h.API.Status), Updated: time.Time(h.API.UpdatedAt)}, revision, err)
			}),
			record.InfraEnvs.Each(tx, "", func(id string, e *record.InfraEnv) error {
				revision, err := record.InfraEnvs.Modified(tx, id)
				return add(Object{Kind: KindInfraEnv, ID: id, Name: conv.Value(e.API.Name),
					Updated: time.Time(conv.Value(e.API.UpdatedAt))}, revision, err)
			}),
			outbox.RecordedRows.Each(tx, "", func(id string, r *outbox.Recorded) error {
				revision, err := outbox.RecordedRows.Modified(tx, id)
				return add(Object{Kind: KindSubscription, ID: id, Name: cmp.Or(names[id], id),
					Status: cmp.Or(r.Closed, r.AckedStatus), Updated: r.ReportedAt.UTC()}, revision, err)
			}),
			hosted.EachCluster(tx, "", "", func(c *hosted.Cluster) error {
				revision, err := hosted.ClusterRevision(tx, c.CID)
				return add(Object{Kind: KindHosted, ID: c.CID, Name: c.ID.Cluster, Status: c.State, Updated: c.Updated},
					revision, err)
			}),
			bundle.Each(tx, func(b *bundle.Bundle) error {
				revision, err := bundle.Revision(tx, b.ID)
				return add(Object{Kind: KindBundle, ID: b.ID, Name: b.Name, Updated: b.Updated, Consumer: b.Consumer},
					revision, err)
			}))
	})
	return all, err
}

// hostname returns the name of a host: the requested one, the reported one, or its ID.
func hostname(tx *store.Tx, key string, h *record.Host) string {
	var reported struct {
		Hostname string `json:"hostname"`
	}
	if h.API.RequestedHostname == "" {
		text, err := record.Reports.Get(tx, key+"/"+record.PartInventory)
		if err == nil { // a damaged report is no reason to leave the host out
			_ = json.Unmarshal([]byte(record.TextOf(*text)), &reported)
		}
	}
	return cmp.Or(h.API.RequestedHostname, reported.Hostname, path.Base(key))
}

// Objects lists the objects of the running appliance.
func (s *Service) Objects(ctx context.Context) (*Objects, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return readObjects(s.DB, s.Clock.Now())
}

// InUseError reports that a running appliance uses a data directory.
type InUseError struct{ Dir string }

// Error implements error.
func (e *InUseError) Error() string {
	return fmt.Sprintf("an appliance uses the data directory %s; compare the backup with its URL, or stop it", e.Dir)
}

// ReadObjects lists the objects of a data directory, which may be damaged. It reads a copy in
// scratch, an empty directory: an opened database may be repaired or change its log. keys is a
// directory with the keys to use if those of the data directory are lost; "" for none.
func ReadObjects(ctx context.Context, dir, scratch, keys string) (*Objects, error) {
	at, err := copyDatabase(ctx, dir, scratch)
	if err != nil {
		return nil, fmt.Errorf("copy the database of %s: %w", dir, err)
	}
	db, err := openCopy(ctx, scratch)
	if _, lost := errors.AsType[*keyring.Error](err); lost && keys != "" {
		if err := copyFiles(ctx, keys, scratch, keyring.FileName, keyring.DefaultKeyFile); err != nil {
			return nil, fmt.Errorf("copy the keys of the backup: %w", err)
		}
		db, err = openCopy(ctx, scratch)
	}
	if err != nil {
		return nil, fmt.Errorf("read a copy of the database of %s: %w", dir,
			errors.New(strings.ReplaceAll(err.Error(), scratch, dir)))
	}
	all, err := readObjects(db, at)
	return all, errors.Join(err, db.Close())
}

func openCopy(ctx context.Context, dir string) (*store.DB, error) {
	return store.Open(ctx, dir, store.Options{Keys: keyring.New(dir, keyring.FromEnvironment()).Open, Salvage: true})
}

// copyDatabase copies the files of a database, unless a process uses them. It returns the time of
// the last change.
func copyDatabase(ctx context.Context, from, to string) (last time.Time, err error) {
	if _, err := os.Stat(filepath.Join(from, store.FileName)); err != nil {
		return last, err
	}
	lock, err := os.Open(filepath.Join(from, "landfall.lock"))
	if err == nil {
		defer func() { err = errors.Join(err, lock.Close()) }()
		if errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
			return last, &InUseError{from}
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return last, err
	}
	var names []string
	for _, p := range parts() {
		found, err := fs.Glob(os.DirFS(from), p.pattern)
		if err != nil {
			return last, err
		}
		for _, name := range found {
			info, err := os.Stat(filepath.Join(from, name))
			if err != nil {
				return last, err
			}
			if p.kind != savedRows && name != "landfall.committed" || !info.Mode().IsRegular() {
				continue
			}
			names = append(names, name)
			if info.ModTime().After(last) {
				last = info.ModTime()
			}
		}
	}
	return last, copyFiles(ctx, from, to, names...)
}

// copyFiles copies files. Missing ones are left out.
func copyFiles(ctx context.Context, from, to string, names ...string) error {
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		file, err := os.Open(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.Remove(filepath.Join(to, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, file.Close())
		}
		if err := errors.Join(writeEntry(filepath.Join(to, name), file), file.Close()); err != nil {
			return err
		}
	}
	return nil
}

// Ways in which an object differs; see Difference.
const (
	NewerThere   = "newer_there"
	OlderThere   = "older_there"
	OnlyThere    = "only_there"
	OnlyInBackup = "only_in_backup"
)

// Difference is an object that differs between a backup and reality.
type Difference struct {
	Object        // in the backup; what is only there, as it is there
	How    string `json:"how"`
	// StatusThere, RevisionThere and UpdatedThere are those of the object in reality.
	StatusThere   string    `json:"status_there,omitempty"`
	RevisionThere uint64    `json:"revision_there,omitempty"`
	UpdatedThere  time.Time `json:"updated_there,omitzero"`
}

// Comparison says how a backup differs from reality.
type Comparison struct {
	// With is the data directory or the URL with which the backup was compared.
	With        string       `json:"with"`
	Time        time.Time    `json:"time"` // of the state there
	Revision    uint64       `json:"revision"`
	Differences []Difference `json:"differences"`
	// Foreign reports that the backup and reality have no object in common.
	Foreign bool `json:"foreign,omitempty"`
}

// Compare compares a backup with reality.
func Compare(saved, there *Objects, with string) *Comparison {
	c := &Comparison{With: with, Time: there.Time, Revision: there.Revision, Differences: []Difference{}}
	key := func(o Object) string { return o.Kind + "/" + o.ID }
	in := map[string]Object{}
	for _, o := range saved.Objects {
		in[key(o)] = o
	}
	common := 0
	for _, now := range there.Objects {
		was, found := in[key(now)]
		delete(in, key(now))
		d := Difference{Object: was, StatusThere: now.Status, RevisionThere: now.Revision, UpdatedThere: now.Updated}
		switch {
		case !found:
			c.Differences = append(c.Differences, Difference{Object: now, How: OnlyThere})
			continue
		case now.Revision > was.Revision:
			d.How = NewerThere
		case now.Revision < was.Revision:
			d.How = OlderThere
		}
		common++
		if d.How != "" {
			c.Differences = append(c.Differences, d)
		}
	}
	for _, o := range in {
		c.Differences = append(c.Differences, Difference{Object: o, How: OnlyInBackup})
	}
	c.Foreign = common == 0 && len(saved.Objects) > 0 && len(there.Objects) > 0
	order := kinds()
	slices.SortFunc(c.Differences, func(a, b Difference) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			cmp.Compare(a.How, b.How), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	return c
}

// held returns what waits for a person after the restore.
func (c *Comparison) held() (all []string) {
	var clusters []string
	consumers := map[string]int{}
	for _, d := range c.Differences {
		switch d.Kind {
		case KindSubscription:
			if !slices.Contains(clusters, d.Name) {
				clusters = append(clusters, d.Name)
			}
		case KindBundle:
			consumers[d.Consumer]++
		}
	}
	if len(clusters) > 0 {
		all = append(all, fmt.Sprintf("AMS: nothing is sent about %s until a person has decided, if AMS knows more "+
			"than the backup (landfall ams status).", enumerate(clusters)))
	}
	for _, consumer := range sortedKeys(consumers) {
		all = append(all, fmt.Sprintf("Management cluster %s: nothing is sent to it until a person has decided about "+
			"the %d bundles that differ (landfall hcp connection %[1]s).", consumer, consumers[consumer]))
	}
	return all
}

func sortedKeys(of map[string]int) []string {
	all := make([]string, 0, len(of))
	for key := range of {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// shownObjects is the number of objects of a kind that people see by name.
const shownObjects = 20

func enumerate(names []string) string {
	if len(names) <= shownObjects {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shownObjects], ", "), len(names)-shownObjects)
}

// write writes the comparison for a person.
func (c *Comparison) write(out io.Writer) {
	fmt.Fprintf(out, "It was compared with %s (state of %s, revision %d).\n", c.With, c.Time.Format(time.RFC3339),
		c.Revision)
	if len(c.Differences) == 0 {
		fmt.Fprintln(out, "Everything there is as in the backup.")
		return
	}
	if c.Foreign {
		fmt.Fprintln(out, "They have no object in common, so they may belong to two sites.")
	}
	for _, how := range []struct{ how, title string }{
		{NewerThere, "Newer there; the restore sets it back"},
		{OnlyThere, "Only there; the restored appliance does not know it"},
		{OnlyInBackup, "Only in the backup, so it was deleted there; the restore brings it back"},
		{OlderThere, "Older there; the backup has later changes"},
	} {
		lines := c.lines(how.how)
		if len(lines) > 0 {
			fmt.Fprintf(out, "%s:\n", how.title)
		}
		for _, line := range lines {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
}

// lines returns a line for each object that differs in a way. Objects beyond a number of them, and
// those with an unchanged status, are counted.
func (c *Comparison) lines(how string) (lines []string) {
	for _, kind := range kinds() {
		shown, more := 0, 0
		for _, d := range c.Differences {
			if d.Kind != kind || d.How != how {
				continue
			}
			same := d.Status == d.StatusThere && (how == NewerThere || how == OlderThere)
			if shown == shownObjects || same && kind == KindHost {
				more++
				continue
			}
			shown++
			line := kind + " " + d.Name
			switch {
			case d.Status != "" && d.StatusThere != "" && d.Status != d.StatusThere:
				line += fmt.Sprintf(": %s in the backup, %s there", d.Status, d.StatusThere)
			case d.Status != "":
				line += ": " + d.Status
			}
			lines = append(lines, line)
		}
		switch {
		case more > 0 && shown > 0:
			lines = append(lines, fmt.Sprintf("and %d more of the kind %s", more, kind))
		case more > 0:
			lines = append(lines, fmt.Sprintf("%d of the kind %s", more, kind))
		}
	}
	return lines
}
