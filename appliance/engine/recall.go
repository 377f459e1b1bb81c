package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"landfall/appliance/journal"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Recall is a cluster's past as a recording, with what its logs must be cleared of.
type Recall struct {
	Recording *journal.Recording
	Redactor  *journal.Redactor
	IDs       []string // of the cluster, its infra-envs and its hosts, by which lines of logs are found
	LogFiles  []string // of the cluster: see OpenLog
}

// OpenLog opens a log file of a cluster; the caller closes it.
func OpenLog(db *store.DB, clusterID, name string) (io.ReadCloser, error) {
	file, _, err := installerFiles.Open(db, clusterID+"/"+name)
	return file, err
}

// FindCluster returns the id of the cluster that has this name, or else takes the text for an id.
func FindCluster(db *store.DB, text string) (string, error) {
	var found []string
	err := db.View(func(tx *store.Tx) error {
		return clusterRows.Each(tx, "", func(id string, row *clusterRecord) error {
			if row.API.Name == text {
				found = append(found, id)
			}
			return nil
		})
	})
	switch {
	case err != nil:
		return "", err
	case len(found) > 1:
		return "", invalid("%d clusters are called %s; give the id of one: %s.", len(found), text,
			strings.Join(found, ", "))
	case len(found) == 1:
		return found[0], nil
	}
	return text, nil
}

// RecallCluster tells what happened to a cluster, and to the infra-envs and hosts that were ever
// its own, out of the store's history. It works on the store of a stopped appliance too. A cluster
// that was deleted is found as long as its history is kept; one that is not known at all is refused
// with kind NotFound. The box is the one that pull secrets were sealed with.
func RecallCluster(ctx context.Context, db *store.DB, sealed *sitekey.Box, id string) (*Recall, error) {
	r := &recaller{db: db, sealed: sealed, secrets: journal.Secrets{Open: sealed.Open}, cluster: id,
		owners: map[string]bool{id: true}, present: make(map[string][]byte), versions: make(map[string]uint64)}
	recall := &Recall{}
	err := db.View(func(tx *store.Tx) error {
		if err := r.findOwners(tx); err != nil {
			return err
		}
		if err := r.readPresent(tx); err != nil {
			return err
		}
		if err := r.collectSecrets(ctx, tx); err != nil {
			return err
		}
		recall.Redactor = r.secrets.Redactor()
		var err error
		recall.Recording, err = r.record(ctx, tx, recall.Redactor)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(recall.Recording.Steps) == 0 && len(r.present) == 0 {
		return nil, notFound("There is no cluster %s, and nothing is known of one in the past.", id)
	}
	recall.LogFiles = r.logs
	for owner := range r.owners {
		if !strings.Contains(owner, "/") {
			recall.IDs = append(recall.IDs, owner)
		}
	}
	return recall, nil
}

// recaller gathers a cluster's past.
type recaller struct {
	db      *store.DB
	sealed  *sitekey.Box
	cluster string
	name    string
	owners  map[string]bool // the cluster, its infra-envs and its hosts: see historyOwner

	present  map[string][]byte // rows that are wanted, as JSON
	versions map[string]uint64 // how often each was written
	logs     []string
	secrets  journal.Secrets
}

// findOwners finds the infra-envs and hosts that are the cluster's, or were: events tell of those.
func (r *recaller) findOwners(tx *store.Tx) error {
	err := errors.Join(
		clusterHosts.Keys(tx, r.cluster+"/", func(key string) error {
			host := key[len(r.cluster)+1:]
			env, id, _ := strings.Cut(host, "/")
			r.owners[host], r.owners[id], r.owners[env] = true, true, true
			return nil
		}),
		clusterEnvs.Keys(tx, r.cluster+"/",
			func(key string) error { r.owners[key[len(r.cluster)+1:]] = true; return nil }),
	)
	if err != nil {
		return err
	}
	return eventRows.Keys(tx, "", func(key string) error {
		_, subjects, err := parseEventKey(key)
		if err != nil {
			return err
		}
		if subjects[0] != r.cluster {
			return nil
		}
		if len(subjects) > 1 {
			r.owners[subjects[1]] = true
		}
		if len(subjects) > 2 {
			r.owners[subjects[1]+"/"+subjects[2]] = true
			r.owners[subjects[2]] = true // of the events
		}
		return nil
	})
}

// wants tells whether a key belongs to the cluster's story.
func (r *recaller) wants(key string) bool { return r.owners[historyOwner(key)] }

// readPresent reads the rows that are wanted as they are now.
func (r *recaller) readPresent(tx *store.Tx) error {
	var prefixes []string
	for owner := range r.owners {
		for _, kind := range []string{"clusters", "infra-envs", "subscriptions", "hosts", "reports",
			"validations/cluster", "validations/host"} {
			prefixes = append(prefixes, "/"+kind+"/"+owner)
		}
	}
	keep := func(key string, row store.Row) error {
		if r.wants(key) {
			r.present[key], r.versions[key] = row.JSON, row.Version
		}
		return nil
	}
	for _, prefix := range prefixes {
		if err := tx.Rows(prefix, false, keep); err != nil {
			return err
		}
	}
	if err := tx.Rows(eventRows.Prefix(), false, keep); err != nil {
		return err
	}
	logs := installerFiles.Prefix() + r.cluster + "/" + logsFolder
	return tx.Rows(installerFiles.Prefix()+r.cluster+"/", true, func(key string, row store.Row) error {
		if strings.HasPrefix(key, logs) {
			r.logs = append(r.logs, strings.TrimPrefix(key, installerFiles.Prefix()+r.cluster+"/"))
		}
		row.JSON = describeFile(key, row.JSON)
		return keep(key, row)
	})
}

// collectSecrets looks for secrets in all that the rows are and were, and in the files that the
// installer wrote.
func (r *recaller) collectSecrets(ctx context.Context, tx *store.Tx) error {
	for key, text := range r.present {
		if err := r.secrets.AddFrom(text); err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
	}
	for _, name := range []string{fileKubeadminPassword, fileKubeconfig, fileKubeconfigNoIngress} {
		if err := r.secretFile(name); err != nil {
			return err
		}
	}
	return tx.History(r.wants, func(step *store.Step) error {
		for _, change := range step.Changes {
			if change.Before == nil || !mayHoldSecrets(change.Key) {
				continue
			}
			if err := r.secrets.AddFrom(change.Before); err != nil {
				return fmt.Errorf("read %s: %w", change.Key, err)
			}
		}
		return ctx.Err()
	})
}

// mayHoldSecrets tells of a row's key whether fields of it are secrets; what agents report and the
// rules find is not.
func mayHoldSecrets(key string) bool {
	return strings.HasPrefix(key, clusterRows.Prefix()) || strings.HasPrefix(key, infraEnvRows.Prefix()) ||
		strings.HasPrefix(key, hostRows.Prefix())
}

// secretFile collects what a generated file holds, line by line and word by word.
func (r *recaller) secretFile(name string) error {
	file, _, err := installerFiles.Open(r.db, r.cluster+"/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if text, err = r.sealed.OpenBytes(text); err != nil {
		return err
	}
	if name == fileKubeadminPassword {
		r.secrets.Add(string(text))
		return nil
	}
	for line := range strings.Lines(string(text)) {
		field, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(field), "- ")) {
		case "client-key-data", "token", "password", "client-certificate-data":
			r.secrets.Add(strings.Trim(strings.TrimSpace(value), `"'`))
		}
	}
	return nil
}

// record walks the history back from the present.
func (r *recaller) record(ctx context.Context, tx *store.Tx, redactor *journal.Redactor) (*journal.Recording, error) {
	builder, err := journal.NewBuilder(redactor, r.present)
	if err != nil {
		return nil, err
	}
	known := make(map[string]uint64) // changes since the present row was created
	created := make(map[string]bool) // keys whose history reaches back to a creation
	err = tx.History(r.wants, func(step *store.Step) error {
		changes := make([]journal.Past, len(step.Changes))
		for i, change := range step.Changes {
			changes[i] = journal.Past{Revision: change.Revision, Key: change.Key,
				Before: describeFile(change.Key, change.Before), After: describeFile(change.Key, change.After)}
		}
		for _, change := range slices.Backward(step.Changes) {
			if !created[change.Key] && !change.Deleted {
				known[change.Key]++
			}
			created[change.Key] = created[change.Key] || change.Before == nil
			r.learnName(change)
		}
		if err := builder.Add(stepOf(step), changes); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	recording, err := builder.Recording()
	if err != nil {
		return nil, err
	}
	for key, version := range r.versions {
		if !created[key] && version > known[key] {
			recording.Dropped += version - known[key]
		}
	}
	r.learnName(store.PastChange{Change: store.Change{Key: clusterRows.Prefix() + r.cluster},
		After: r.present[clusterRows.Prefix()+r.cluster]})
	recording.ClusterID, recording.ClusterName, recording.Revision = r.cluster, r.name, tx.Revision()
	return recording, nil
}

// learnName takes the cluster's name from its row.
func (r *recaller) learnName(change store.PastChange) {
	if change.Key != clusterRows.Prefix()+r.cluster {
		return
	}
	for _, text := range [][]byte{change.After, change.Before} {
		var row clusterRecord
		if text != nil && json.Unmarshal(text, &row) == nil && row.API.Name != "" {
			r.name = row.API.Name
			return
		}
	}
}

// stepOf is a step of the history without its changes.
func stepOf(past *store.Step) journal.Step {
	step := journal.Step{Revision: past.First}
	var note Note
	if past.Note == nil || json.Unmarshal(past.Note, &note) != nil {
		return step
	}
	step.At, step.Operation, step.Request, step.Host = note.At, note.Operation, note.Request, note.Host
	if reply := note.Reply; reply != nil {
		step.Reply = &journal.Reply{Type: reply.Type, ID: reply.ID, ExitCode: reply.ExitCode, Bytes: reply.Bytes,
			Output: reply.Output, Error: reply.Error}
	}
	return step
}

// logsFolder is where logs lie among the files of a cluster.
const logsFolder = "logs/"

// describeFile takes the hash out of a file's description unless the file is a manifest or a log:
// the others are made of secrets, of which not even the hash leaves the site.
func describeFile(key string, description []byte) []byte {
	rest, ok := strings.CutPrefix(key, installerFiles.Prefix())
	if !ok || description == nil {
		return description
	}
	_, name, _ := strings.Cut(rest, "/")
	if strings.HasPrefix(name, logsFolder) || strings.HasPrefix(name, manifestFolder) {
		return description
	}
	var info map[string]any
	if json.Unmarshal(description, &info) != nil {
		return description
	}
	delete(info, "sha256")
	text, err := json.Marshal(info)
	if err != nil {
		return description
	}
	return text
}
