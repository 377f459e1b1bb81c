package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"landfall/appliance/fault"
	"landfall/appliance/sitekey"
	"landfall/store"
)

// Layout describes where the engine stores the objects of clusters.
type Layout struct {
	Hosts         store.Index // <cluster id>/<infra-env id>/<host id>
	InfraEnvs     store.Index // <cluster id>/<infra-env id>
	Files         store.Files // <cluster id>/<name>
	LogDirectory  string      // prefix of the names of log files
	PublicFiles   []string    // name prefixes of files whose hash may leave the site
	PasswordFiles []string    // names of files that contain one password
	Kubeconfigs   []string    // names of files that are kubeconfigs
	// Events calls visit for every event with the IDs in its key: the cluster, and the infra-env
	// and the host if the event concerns one.
	Events func(tx *store.Tx, visit func(subjects []string) error) error
	// SecretsPurpose is the purpose of the key that encrypts secrets and files.
	SecretsPurpose sitekey.Purpose
}

// Collection is the history of a cluster, with a redactor for its logs.
type Collection struct {
	Recording *Recording
	Redactor  *Redactor
	IDs       []string // of the cluster, its infra-envs and its hosts; a log line with one of these IDs is relevant
	LogFiles  []string // names in Layout.Files, without the cluster's id
}

// findCluster returns the ID of the cluster with a name. If no cluster has the name, it returns the
// text itself as an ID.
func findCluster(db *store.DB, text string) (string, error) {
	var found []string
	err := db.View(func(tx *store.Tx) error {
		return tx.Rows(clusterPrefix, false, func(key string, row store.Row) error {
			name, err := clusterName(row.JSON)
			if name == text {
				found = append(found, strings.TrimPrefix(key, clusterPrefix))
			}
			return err
		})
	})
	switch {
	case err != nil:
		return "", err
	case len(found) > 1:
		return "", fault.New(fault.Invalid, "%d clusters have the name %s; give one of the IDs %s.", len(found), text,
			strings.Join(found, ", "))
	case len(found) == 1:
		return found[0], nil
	}
	return text, nil
}

const (
	clusterPrefix  = "/clusters/"
	infraEnvPrefix = "/infra-envs/"
	hostPrefix     = "/hosts/"
	eventPrefix    = "/events/"
)

// clusterName returns the name in the row of a cluster.
func clusterName(row []byte) (string, error) {
	var cluster struct {
		API struct {
			Name string `json:"name"`
		} `json:"api"`
	}
	err := json.Unmarshal(row, &cluster)
	return cluster.API.Name, err
}

// Collect reads the history of a cluster from the store, with the history of all infra-envs and
// hosts that ever belonged to it. It also works on the store of a stopped appliance. A deleted
// cluster is found as long as its history is kept. For an unknown cluster, the error has the kind
// NotFound. box decrypts secrets.
func Collect(ctx context.Context, db *store.DB, layout Layout, box *sitekey.Box, id string) (*Collection, error) {
	c := &collector{db: db, layout: layout, box: box, secrets: Secrets{Open: box.Open}, cluster: id,
		owners: map[string]bool{id: true}, present: make(map[string][]byte), versions: make(map[string]uint64)}
	collection := &Collection{}
	err := db.View(func(tx *store.Tx) error {
		if err := c.findOwners(tx); err != nil {
			return err
		}
		if err := c.readPresent(tx); err != nil {
			return err
		}
		if err := c.collectSecrets(ctx, tx); err != nil {
			return err
		}
		collection.Redactor = c.secrets.Redactor()
		var err error
		collection.Recording, err = c.record(ctx, tx, collection.Redactor)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(collection.Recording.Steps) == 0 && len(c.present) == 0 {
		return nil, fault.New(fault.NotFound,
			"The cluster %s does not exist, and the store has no history of a deleted cluster with this ID.", id)
	}
	collection.LogFiles = c.logs
	for owner := range c.owners {
		if !strings.Contains(owner, "/") {
			collection.IDs = append(collection.IDs, owner)
		}
	}
	return collection, nil
}

// collector collects the history of one cluster.
type collector struct {
	db      *store.DB
	layout  Layout
	box     *sitekey.Box
	cluster string
	name    string
	owners  map[string]bool // the cluster, its infra-envs and its hosts: see Owner

	present  map[string][]byte // the current rows of the owners, as JSON
	versions map[string]uint64 // how often each current row was written
	logs     []string
	secrets  Secrets
}

// findOwners finds the infra-envs and hosts that belong to the cluster or belonged to it earlier.
// Events contain the IDs of earlier ones.
func (c *collector) findOwners(tx *store.Tx) error {
	err := errors.Join(
		c.layout.Hosts.Keys(tx, c.cluster+"/", func(key string) error {
			host := key[len(c.cluster)+1:]
			env, id, _ := strings.Cut(host, "/")
			c.owners[host], c.owners[id], c.owners[env] = true, true, true
			return nil
		}),
		c.layout.InfraEnvs.Keys(tx, c.cluster+"/",
			func(key string) error { c.owners[key[len(c.cluster)+1:]] = true; return nil }),
	)
	if err != nil {
		return err
	}
	return c.layout.Events(tx, func(subjects []string) error {
		if subjects[0] != c.cluster {
			return nil
		}
		if len(subjects) > 1 {
			c.owners[subjects[1]] = true
		}
		if len(subjects) > 2 {
			c.owners[subjects[1]+"/"+subjects[2]] = true
			c.owners[subjects[2]] = true // owner of the host's events
		}
		return nil
	})
}

// wants reports whether a key belongs to the cluster's history.
func (c *collector) wants(key string) bool { return c.owners[Owner(key)] }

// readPresent reads the current rows of the owners.
func (c *collector) readPresent(tx *store.Tx) error {
	var prefixes []string
	for owner := range c.owners {
		for _, kind := range []string{"clusters", "infra-envs", "subscriptions", "hosts", "reports",
			"validations/cluster", "validations/host"} {
			prefixes = append(prefixes, "/"+kind+"/"+owner)
		}
	}
	keep := func(key string, row store.Row) error {
		if c.wants(key) {
			c.present[key], c.versions[key] = row.JSON, row.Version
		}
		return nil
	}
	for _, prefix := range prefixes {
		if err := tx.Rows(prefix, false, keep); err != nil {
			return err
		}
	}
	if err := tx.Rows(eventPrefix, false, keep); err != nil {
		return err
	}
	files := c.layout.Files.Prefix() + c.cluster + "/"
	return tx.Rows(files, true, func(key string, row store.Row) error {
		if name := strings.TrimPrefix(key, files); strings.HasPrefix(name, c.layout.LogDirectory) {
			c.logs = append(c.logs, name)
		}
		row.JSON = c.layout.DescribeFile(key, row.JSON)
		return keep(key, row)
	})
}

// collectSecrets collects the secrets in all current and past rows, and in the files from
// openshift-install.
func (c *collector) collectSecrets(ctx context.Context, tx *store.Tx) error {
	for key, text := range c.present {
		if err := c.secrets.AddFrom(text); err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
	}
	if err := c.fileSecrets(); err != nil {
		return err
	}
	return c.pastSecrets(ctx, tx, c.wants)
}

// pastSecrets collects the secrets in the past rows of some keys.
func (c *collector) pastSecrets(ctx context.Context, tx *store.Tx, wants func(key string) bool) error {
	return tx.History(wants, func(step *store.Step) error {
		for _, change := range step.Changes {
			if change.Before == nil || !mayHoldSecrets(change.Key) {
				continue
			}
			if err := c.secrets.AddFrom(change.Before); err != nil {
				return fmt.Errorf("read %s: %w", change.Key, err)
			}
		}
		return ctx.Err()
	})
}

// mayHoldSecrets reports whether the row of a key may contain secrets. Agents' reports and
// validation results do not.
func mayHoldSecrets(key string) bool {
	return strings.HasPrefix(key, clusterPrefix) || strings.HasPrefix(key, infraEnvPrefix) ||
		strings.HasPrefix(key, hostPrefix)
}

// fileSecrets collects the secrets in the files from openshift-install.
func (c *collector) fileSecrets() error {
	for _, name := range c.layout.PasswordFiles {
		text, err := c.readFile(name)
		if err != nil {
			return err
		}
		c.secrets.Add(text)
	}
	for _, name := range c.layout.Kubeconfigs {
		text, err := c.readFile(name)
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			field, value, _ := strings.Cut(line, ":")
			switch strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(field), "- ")) {
			case "client-key-data", "token", "password", "client-certificate-data":
				c.secrets.Add(strings.Trim(strings.TrimSpace(value), `"'`))
			}
		}
	}
	return nil
}

// readFile returns the content of a file of the cluster, or "" if the file does not exist.
func (c *collector) readFile(name string) (string, error) {
	file, _, err := c.layout.Files.Open(c.db, c.cluster+"/"+name)
	if errors.Is(err, store.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	text, err = c.box.OpenBytes(text)
	return string(text), err
}

// record builds the recording from the current rows and the history. It processes the history from
// the newest change to the oldest.
func (c *collector) record(ctx context.Context, tx *store.Tx, redactor *Redactor) (*Recording, error) {
	builder, err := NewBuilder(redactor, c.present)
	if err != nil {
		return nil, err
	}
	recorded := make(map[string]uint64) // number of recorded changes since the current row was created
	created := make(map[string]bool)    // keys whose creation is in the history
	err = tx.History(c.wants, func(step *store.Step) error {
		changes := make([]Past, len(step.Changes))
		for i, change := range step.Changes {
			changes[i] = Past{Revision: change.Revision, Key: change.Key,
				Before: c.layout.DescribeFile(change.Key, change.Before),
				After:  c.layout.DescribeFile(change.Key, change.After)}
		}
		for _, change := range slices.Backward(step.Changes) {
			if !created[change.Key] && !change.Deleted {
				recorded[change.Key]++
			}
			created[change.Key] = created[change.Key] || change.Before == nil
			c.readName(change)
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
	for key, version := range c.versions {
		if !created[key] && version > recorded[key] {
			recording.Dropped += version - recorded[key]
		}
	}
	c.readName(store.PastChange{Change: store.Change{Key: clusterPrefix + c.cluster},
		After: c.present[clusterPrefix+c.cluster]})
	recording.ClusterID, recording.ClusterName, recording.Revision = c.cluster, c.name, tx.Revision()
	return recording, nil
}

// readName reads the cluster's name from a change of the cluster's row.
func (c *collector) readName(change store.PastChange) {
	if change.Key != clusterPrefix+c.cluster {
		return
	}
	for _, text := range [][]byte{change.After, change.Before} {
		if text == nil {
			continue
		}
		if name, err := clusterName(text); err == nil && name != "" {
			c.name = name
			return
		}
	}
}

// stepOf returns a step of the history without its changes.
func stepOf(past *store.Step) Step {
	step := Step{Revision: past.First}
	var note Note
	if past.Note == nil || json.Unmarshal(past.Note, &note) != nil {
		return step
	}
	step.At, step.Operation, step.Request, step.Host = note.At, note.Operation, note.Request, note.Host
	if reply := note.Reply; reply != nil {
		step.Reply = &Reply{Type: reply.Type, ID: reply.ID, ExitCode: reply.ExitCode, Bytes: reply.Bytes,
			Output: reply.Output, Error: reply.Error}
	}
	return step
}

// DescribeFile returns the row of a file for a journal. It removes the hash of a file that is not
// public, because such files contain secrets and even a secret's hash must not leave the site. It
// returns other rows unchanged.
func (l Layout) DescribeFile(key string, row []byte) []byte {
	rest, ok := strings.CutPrefix(key, l.Files.Prefix())
	if !ok || row == nil {
		return row
	}
	_, name, _ := strings.Cut(rest, "/")
	if slices.ContainsFunc(l.PublicFiles, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return row
	}
	var info map[string]any
	if json.Unmarshal(row, &info) != nil {
		return row
	}
	delete(info, "sha256")
	text, err := json.Marshal(info)
	if err != nil {
		return row
	}
	return text
}
