// Package validationcache keeps the last validation result of each host and cluster with a digest
// of its input, so that a change of one host does not validate the other hosts again. A result is
// only used for the same input and the same row of results.
package validationcache

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/canonical"
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/validation"
)

// Result is the combined result of the validations of a host or a cluster.
type Result struct {
	Status  validation.Readiness
	Failing string // messages of the failing validations
}

// Digest is the digest of the input of validations.
type Digest [sha256.Size]byte

// Entry is a stored result.
type Entry struct {
	Inputs   Digest
	Revision uint64 // of the validations' row
	Result   Result
}

// Cache holds the entries. Its methods may be called concurrently. The zero value is empty.
type Cache struct {
	mu      sync.Mutex
	entries map[string]Entry // by host key or cluster id
}

// Get returns the entry of a host or a cluster.
func (c *Cache) Get(key string) (Entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.entries[key]
	return found, ok
}

// Put replaces the entry of a host or a cluster.
func (c *Cache) Put(key string, entry Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entries == nil {
		c.entries = make(map[string]Entry)
	}
	c.entries[key] = entry
}

// Drop removes the entry of a host or a cluster.
func (c *Cache) Drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// Encoders of the inputs from which digests are computed.
var (
	encodeHost     = canonical.EncoderOf[models.Host]()
	encodeInfraEnv = canonical.EncoderOf[models.InfraEnv]()
	encodeMembers  = canonical.EncoderOf[memberInputs]()
	encodeCatalogs = canonical.EncoderOf[map[string]string]()
)

// encodingSize is the usual size of an encoded input in bytes.
const encodingSize = 4 << 10

// Digester computes digests of the input of hosts' validations. It keeps its buffer.
type Digester struct{ buffer []byte }

// Host returns the digest of the input of a host's validations. shared is the result of [Shared],
// or empty for a host without a cluster.
func (d *Digester) Host(h *record.Host, env *record.InfraEnv, connected bool, shared []byte) Digest {
	record := h.API
	record.UpdatedAt = time.Time{} // changes with every write
	text := encodeHost(slices.Grow(d.buffer[:0], encodingSize), &record)
	text = binary.LittleEndian.AppendUint64(text, h.Reported)
	text = strconv.AppendBool(strconv.AppendBool(text, connected), h.IsRestarting())
	text = encodeInfraEnv(text, &env.API)
	d.buffer = append(text, shared...)
	return sha256.Sum256(d.buffer)
}

// peerInputs holds the fields of a host that the validations of the other hosts read.
type peerInputs struct {
	ID, Hostname, Fencing string
	Role                  models.HostRole
	Inventory             bool
	Connectivity          bool
}

// memberInputs holds the input of a host's validations apart from the host itself: the cluster, the
// groups of connected hosts and the other hosts.
type memberInputs struct {
	Cluster    models.Cluster
	Peers      []peerInputs
	Groups     *network.Groups
	Collisions map[string][]string
}

// Shared returns the digest of the input that the validations of all hosts of a cluster share.
func Shared(cluster *models.Cluster, hosts []*inventory.Host, groups *network.Groups,
	collisions map[string][]string) []byte {
	inputs := memberInputs{*cluster, make([]peerInputs, len(hosts)), groups, collisions}
	inputs.Cluster.UpdatedAt = time.Time{}
	for i, h := range hosts {
		inputs.Peers[i] = peerInputs{string(h.ID()), h.Hostname(), h.Record.FencingCredentials,
			h.Role(), h.Inventory != nil, h.Connectivity != nil}
	}
	sum := sha256.Sum256(encodeMembers(make([]byte, 0, encodingSize), &inputs))
	return sum[:]
}

// Cluster returns the digest of the input of a cluster's validations. records and hosts are the
// same hosts in the same order, and shared is the result of [Shared].
func Cluster(input validation.ClusterInput, records []*record.Host, hosts []*inventory.Host, shared []byte) Digest {
	text := strconv.AppendBool(nil, input.CustomManifests)
	text = encodeCatalogs(text, &input.MissingCatalogs)
	text = append(append(text, shared...), members(records, hosts)...)
	return sha256.Sum256(text)
}

// members encodes the fields of all hosts that the cluster's validations read. It does not use
// JSON, which takes longer than the validations.
func members(records []*record.Host, hosts []*inventory.Host) []byte {
	var text []byte
	for i, h := range hosts {
		r := h.Record
		for _, field := range []string{
			string(h.ID()), h.Status(), conv.Value(r.Kind), string(r.Role), string(r.SuggestedRole),
			r.RequestedHostname, r.FencingCredentials,
			r.InstallationDiskID, r.InstallationDiskPath, r.SkipFormattingDisks, string(h.Stage()),
		} {
			text = append(append(text, field...), 0)
		}
		for _, number := range []int64{r.Timestamp, time.Time(r.CheckedInAt).UnixNano(), int64(records[i].Reported)} {
			text = binary.LittleEndian.AppendUint64(text, uint64(number))
		}
	}
	return text
}
