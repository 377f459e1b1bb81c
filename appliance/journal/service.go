package journal

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

	"landfall/appliance/keyring"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Service exports the journals of clusters.
type Service struct {
	DB      *store.DB
	Layout  Layout
	Key     *sitekey.Key
	Log     *RecentLog // nil if the appliance is not running
	Version string     // version of the program
}

// Journal collects the history of a cluster. It returns a file name and a function that writes the
// file.
func (s Service) Journal(ctx context.Context, clusterID string) (name string, write func(io.Writer) error, err error) {
	box, err := s.Key.Box(s.Layout.SecretsPurpose, nil)
	if err != nil {
		return "", nil, err
	}
	collected, err := Collect(ctx, s.DB, s.Layout, box, clusterID)
	if err != nil {
		return "", nil, err
	}
	recording := collected.Recording
	recording.MadeAt = time.Now().UTC().Truncate(time.Second)
	var notes []string
	if recording.Dropped > 0 {
		notes = append(notes,
			fmt.Sprintf("%d older changes are no longer in the history; the journal begins with the state after "+
				"them. limits.journal_bytes and limits.journal_object_bytes limit the history.", recording.Dropped))
	}
	var logs []Log
	if s.Log == nil {
		notes = append(notes, "The appliance was not running, so its own log is not included.")
	} else {
		logs = append(logs, Log{Name: "appliance.log", Write: func(out io.Writer) error {
			return s.Log.write(out, collected.IDs, collected.Redactor.Text)
		}})
	}
	for _, file := range collected.LogFiles {
		logs = append(logs, Log{Name: strings.TrimSuffix(filepath.Base(file), ".tar.gz") + ".log",
			Write: func(out io.Writer) (err error) {
				in, _, err := s.Layout.Files.Open(s.DB, clusterID+"/"+file)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, in.Close()) }()
				return CopyLog(out, in, collected.Redactor)
			}})
	}
	write = func(out io.Writer) error {
		_, err := Write(out, recording, logs, notes, s.Version, s.Key)
		return err
	}
	return fileName(recording), write, nil
}

// fileName returns the file name of a journal: the cluster's name and the time of the recording.
func fileName(recording *Recording) string {
	name := recording.ClusterName
	if name == "" {
		name = recording.ClusterID
	}
	return name + "-" + recording.MadeAt.Format("20060102T150405Z") + Extension
}

// ErrNoData reports that a directory is not the data directory of an appliance.
var ErrNoData = errors.New("it is not the data directory of an appliance")

// FromDirectory exports the journal of a cluster from the data directory of a stopped appliance. It
// calls write with the journal's file name and content. The cluster is given by ID or name. If the
// appliance is running, the error is a *store.HeldError.
func FromDirectory(ctx context.Context, dir string, layout Layout, cluster, version string,
	write func(name string, content func(io.Writer) error) error) (err error) {
	if _, err := os.Stat(filepath.Join(dir, store.FileName)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has no database: %w", dir, ErrNoData)
	}
	keys := keyring.New(dir, keyring.FromEnvironment())
	db, err := store.Open(ctx, dir, store.Options{Keys: keys.Open})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	key, err := sitekey.LoadSealed(dir, keys.Ring())
	if err != nil {
		return err
	}
	id, err := findCluster(db, cluster)
	if err != nil {
		return err
	}
	name, content, err := Service{DB: db, Layout: layout, Key: key, Version: version}.Journal(ctx, id)
	if err != nil {
		return err
	}
	return write(name, content)
}
