package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"

	"landfall/appliance/ams/outbox"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	hosted "landfall/appliance/hosted/record"
	"landfall/appliance/keyring"
	"landfall/appliance/sentence"
	"landfall/store"
)

// Content says what a backup contains, what may be different in reality, and what waits for a
// person after a restore.
type Content struct {
	Time     time.Time `json:"time"`
	Revision uint64    `json:"revision"`
	Program  string    `json:"program"`
	// Unreadable says why the content is not known; "" if it is.
	Unreadable    string         `json:"unreadable,omitempty"`
	Clusters      []Cluster      `json:"clusters"`
	Hosts         map[string]int `json:"hosts"`         // numbers by status
	Subscriptions int            `json:"subscriptions"` // of clusters in AMS
	Newer         []string       `json:"newer"`         // what may be newer in reality
	Held          []string       `json:"held"`          // what waits for a person
	Damaged       []string       `json:"damaged"`       // keys of rows that were damaged in the appliance
	// Comparison is the one with reality; nil if the content is not known, or none was asked for.
	Comparison *Comparison `json:"comparison,omitempty"`
	objects    *Objects
}

// Cluster is a cluster in a backup.
type Cluster struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Status string `json:"status"`
}

// Describe reads the content of a restored directory. It needs what opens the data keys: a key in
// the backup, or that of the environment; see keyring.FromEnvironment.
func Describe(ctx context.Context, m *Manifest, dir string) (*Content, error) {
	return DescribeWith(ctx, m, dir, keyring.FromEnvironment())
}

// DescribeWithKeyOf does the same, with the key file of another data directory if there is none.
func DescribeWithKeyOf(ctx context.Context, other string, m *Manifest, dir string,
	options keyring.Options) (*Content, error) {
	if _, err := os.Stat(filepath.Join(dir, keyring.DefaultKeyFile)); err != nil && options.KeyFile == "" {
		options.KeyFile = filepath.Join(other, keyring.DefaultKeyFile)
	}
	return DescribeWith(ctx, m, dir, options)
}

// DescribeWith does the same, with what opens the data keys.
func DescribeWith(ctx context.Context, m *Manifest, dir string, keys keyring.Options) (*Content, error) {
	c := &Content{Time: m.Time, Revision: m.Revision, Program: m.Program, Clusters: []Cluster{},
		Hosts: map[string]int{}, Newer: []string{}, Held: []string{}, Damaged: []string{}}
	db, err := store.Open(ctx, dir, store.Options{Keys: keyring.New(dir, keys).Open})
	if known, ok := errors.AsType[*keyring.Error](err); ok {
		text := strings.ReplaceAll(known.Error(), dir, filepath.Base(strings.TrimSuffix(dir, temporarySuffix)))
		// The commands that restore read no configuration.
		c.Unreadable = strings.ReplaceAll(text, "with seal.key_file or LANDFALL_SEAL_KEY_FILE",
			"with --seal-key-file")
		return c, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open the restored database: %w", err)
	}
	err = db.View(func(tx *store.Tx) error {
		return errors.Join(
			record.Clusters.Each(tx, "", c.cluster),
			record.Hosts.Each(tx, "", func(_ string, h *record.Host) error {
				c.Hosts[conv.Value(h.API.Status)]++
				return nil
			}),
			hosted.EachCluster(tx, "", "", c.hosted),
			outbox.RecordedRows.Each(tx, "", func(_ string, recorded *outbox.Recorded) error {
				if recorded.Closed == "" {
					c.Subscriptions++
				}
				return nil
			}))
	})
	if err == nil {
		c.objects, err = readObjects(db, m.Time)
	}
	// The appliance had these damaged rows too. A backup with them is better than none.
	for _, damaged := range db.Damage() {
		c.Damaged = append(c.Damaged, damaged.Key)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	installing := 0
	for _, status := range lifecycle.HostInstallingStates {
		installing += c.Hosts[status]
	}
	if installing > 0 {
		c.Newer = append(c.Newer, fmt.Sprintf("%d hosts were being installed. In reality they may be nodes since then.",
			installing))
	}
	if c.Subscriptions > 0 {
		c.Held = append(c.Held, fmt.Sprintf("AMS: %d subscriptions are compared with AMS first. What is missing "+
			"there or differs waits for a person (landfall ams status).", c.Subscriptions))
	}
	return c, nil
}

// CompareWith adds the comparison with reality, if the content is known.
func (c *Content) CompareWith(there *Objects, with string) {
	if c.objects == nil {
		return
	}
	c.Comparison = Compare(c.objects, there, with)
	c.Held = append(c.Held, c.Comparison.held()...)
}

func (c *Content) cluster(id string, row *record.Cluster) error {
	status := conv.Value(row.API.Status)
	c.Clusters = append(c.Clusters, Cluster{id, row.API.Name, status})
	switch status {
	case lifecycle.ClusterPreparing, lifecycle.ClusterInstalling, lifecycle.ClusterFinalizing,
		lifecycle.ClusterPendingUserAction:
		c.Newer = append(c.Newer, fmt.Sprintf("Cluster %s was %s. In reality its installation may have ended since "+
			"then.", row.API.Name, status))
	}
	return nil
}

func (c *Content) hosted(cluster *hosted.Cluster) error {
	if !hosted.IsTerminal(cluster.State) {
		c.Newer = append(c.Newer, fmt.Sprintf("Hosted cluster %s was in the state %s. In reality that may have ended "+
			"since then.", cluster.ID.Cluster, cluster.State))
	}
	return nil
}

// Write writes the content for a person.
func (c *Content) Write(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "The backup has the state of %s (revision %d, written by Landfall %s).\n",
		c.Time.Format(time.RFC3339), c.Revision, c.Program)
	fmt.Fprintln(&text, "Everything that was created, changed or deleted after that time is missing from it.")
	if c.Unreadable != "" {
		fmt.Fprintf(&text, "It is complete, but its content can't be shown without the key of its seal. %s\n",
			c.Unreadable)
		_, err := io.WriteString(out, text.String())
		return err
	}
	fmt.Fprintf(&text, "It contains %s and %s.\n", sentence.Count(len(c.Clusters), "cluster"),
		sentence.Count(total(c.Hosts), "host"))
	const shown = 20
	for _, cluster := range c.Clusters[:min(len(c.Clusters), shown)] {
		fmt.Fprintf(&text, "  cluster %s: %s\n", cluster.Name, cluster.Status)
	}
	if len(c.Clusters) > shown {
		fmt.Fprintf(&text, "  and %d more\n", len(c.Clusters)-shown)
	}
	if len(c.Damaged) > 0 {
		fmt.Fprintf(&text, "%d rows were already damaged in the appliance, and are left out: %s\n", len(c.Damaged),
			strings.Join(c.Damaged[:min(len(c.Damaged), shown)], ", "))
	}
	newer := c.Newer
	if c.Comparison != nil { // it is more exact
		newer = nil
		c.Comparison.write(&text)
	}
	for _, each := range slices.Concat(newer, c.Held) {
		fmt.Fprintf(&text, "%s\n", each)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

func total(counts map[string]int) (sum int) {
	for _, count := range counts {
		sum += count
	}
	return sum
}
