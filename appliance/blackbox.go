package appliance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"landfall/appliance/engine"
	"landfall/appliance/journal"
	"landfall/appliance/sitekey"
	"landfall/store"
	"landfall/web/api"
)

// pullSecrets is what the site's key seals pull secrets for.
const pullSecrets sitekey.Purpose = "landfall pull secrets"

// blackBox makes journals of clusters.
type blackBox struct {
	db      *store.DB
	key     *sitekey.Key
	recent  *recentLog // nil: the appliance does not run
	version string
}

// Journal gathers what happened to a cluster. It returns the name of a file for it and a function
// that writes it.
func (b blackBox) Journal(ctx context.Context, clusterID string) (name string, write func(io.Writer) error, err error) {
	sealed, err := b.key.Box(pullSecrets, nil)
	if err != nil {
		return "", nil, err
	}
	recall, err := engine.RecallCluster(ctx, b.db, sealed, clusterID)
	if err != nil {
		return "", nil, api.Problem(err)
	}
	recording := recall.Recording
	recording.MadeAt = time.Now().UTC().Truncate(time.Second)
	var notes []string
	if recording.Dropped > 0 {
		notes = append(notes,
			fmt.Sprintf("%d older changes have dropped out of the journal; what they led to is where it begins. "+
				"limits.journal_bytes and limits.journal_object_bytes bound it.", recording.Dropped))
	}
	var logs []journal.Log
	if b.recent == nil {
		notes = append(notes, "The appliance was not running, so its own log is not here.")
	} else {
		logs = append(logs, journal.Log{Name: "appliance.log", Write: func(out io.Writer) error {
			return b.recent.write(out, recall.IDs, recall.Redactor.Text)
		}})
	}
	for _, file := range recall.LogFiles {
		logs = append(logs, journal.Log{Name: strings.TrimSuffix(filepath.Base(file), ".tar.gz") + ".log",
			Write: func(out io.Writer) (err error) {
				in, err := engine.OpenLog(b.db, clusterID, file)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, in.Close()) }()
				return journal.CopyLog(out, in, recall.Redactor)
			}})
	}
	write = func(out io.Writer) error {
		_, err := journal.Write(out, recording, logs, notes, b.version, b.key)
		return err
	}
	return journalName(recording), write, nil
}

// journalName is a file name that says of which cluster a journal is, and when it was made.
func journalName(recording *journal.Recording) string {
	name := recording.ClusterName
	if name == "" {
		name = recording.ClusterID
	}
	return name + "-" + recording.MadeAt.Format("20060102T150405Z") + journal.Extension
}

// ErrNoData is the error of a data directory in which no appliance has run.
var ErrNoData = errors.New("no appliance has run there")

// StoppedJournal makes a cluster's journal from the data directory of an appliance that does not
// run, and calls write with its file name and content. The cluster is named by its id or its name.
// An appliance that runs is *store.HeldError.
func StoppedJournal(ctx context.Context, dir, cluster, version string, write func(name string,
	content func(io.Writer) error) error) (err error) {
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no database: %w", dir, ErrNoData)
	}
	db, err := store.Open(ctx, dir, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	key, err := sitekey.LoadOrCreate(dir)
	if err != nil {
		return err
	}
	id, err := engine.FindCluster(db, cluster)
	if err != nil {
		return err
	}
	name, content, err := blackBox{db: db, key: key, version: version}.Journal(ctx, id)
	if err != nil {
		return err
	}
	return write(name, content)
}
