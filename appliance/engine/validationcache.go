package engine

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
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/network"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/validation"
)

// validationResult is the combined result of the validations of an object.
type validationResult struct {
	status  validation.Readiness
	failing string
}

// validator decides whether a host or a cluster can be installed. The product uses the validations;
// random walks choose results at random.
type validator interface {
	validateHost(h *record.Host) validationResult
	validateCluster(m *clusterMembers) validationResult
}

// cachedValidation is the stored result of validating a host or a cluster, with the digest of its
// input and the revision of the validations' row.
type cachedValidation struct {
	inputs   [sha256.Size]byte
	revision uint64 // of the validations' row
	result   validationResult
}

// validationCache holds the last validation result of each host and cluster, so that a change of
// one host does not validate the other hosts again. A result is only used for the same input and
// the same row.
type validationCache struct {
	mu      sync.Mutex
	results map[string]cachedValidation // by host key or cluster id
}

func (v *validationCache) get(key string) (cachedValidation, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	found, ok := v.results[key]
	return found, ok
}

func (v *validationCache) put(key string, found cachedValidation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.results == nil {
		v.results = make(map[string]cachedValidation)
	}
	v.results[key] = found
}

func (v *validationCache) drop(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.results, key)
}

// validateHost returns the validation result of a host. The validations only run again if their
// input has changed: the host's record and reports, its contact, its infra-env, its cluster, or the
// relevant fields of other hosts.
func (c *change) validateHost(h *record.Host, host *inventory.Host, m *clusterMembers) (validationResult, error) {
	if !lifecycle.Validated(*h.API.Status) {
		return validationResult{status: validation.Ready}, nil
	}
	if c.e.validator != nil {
		return c.e.validator.validateHost(h), nil
	}
	key := record.HostKey(h)
	env, err := c.infraEnv(h.API.InfraEnvID.String())
	if err != nil {
		return validationResult{}, err
	}
	inputs := c.inputsOf(h, env, m)
	if held, ok := c.lastValidation(key); ok && held.inputs == inputs {
		if row, err := record.Validations.Modified(c.tx, record.HostSubject(key)); err == nil && row == held.revision {
			return held.result, nil
		}
	}
	report, err := c.runHostValidations(h, host, env, m)
	if err != nil {
		return validationResult{}, err
	}
	found := validationResult{report.Readiness(), messages(report.Blocking())}
	row, err := record.Validations.Modified(c.tx, record.HostSubject(key))
	if err != nil {
		return validationResult{}, err
	}
	c.validated[key] = cachedValidation{inputs, row, found}
	return found, nil
}

// lastValidation returns the last validation result of an object: the result in this change if
// there is one, otherwise the committed result.
func (c *change) lastValidation(key string) (cachedValidation, bool) {
	if held, ok := c.validated[key]; ok {
		return held, true
	}
	return c.e.validationCache.get(key)
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

// inputsOf returns the digest of the input of a host's validations.
func (c *change) inputsOf(h *record.Host, env *record.InfraEnv, m *clusterMembers) [sha256.Size]byte {
	record := h.API
	record.UpdatedAt = time.Time{} // changes with every write
	c.scratch = encodeHost(slices.Grow(c.scratch[:0], encodingSize), &record)
	c.scratch = binary.LittleEndian.AppendUint64(c.scratch, h.Reported)
	c.scratch = strconv.AppendBool(strconv.AppendBool(c.scratch, c.connected(h)), h.IsRestarting())
	c.scratch = encodeInfraEnv(c.scratch, &env.API)
	if m != nil {
		c.scratch = append(c.scratch, m.digest()...)
	}
	return sha256.Sum256(c.scratch)
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

// digest returns the digest of the input that the validations of all hosts share.
func (m *clusterMembers) digest() []byte {
	if m.inputs == nil {
		inputs := memberInputs{m.row.API, make([]peerInputs, len(m.hosts)), m.groups, m.collisions}
		inputs.Cluster.UpdatedAt = time.Time{}
		for i, h := range m.hosts {
			inputs.Peers[i] = peerInputs{string(h.ID()), h.Hostname(), h.Record.FencingCredentials,
				h.Role(), h.Inventory != nil, h.Connectivity != nil}
		}
		sum := sha256.Sum256(encodeMembers(make([]byte, 0, encodingSize), &inputs))
		m.inputs = sum[:]
	}
	return m.inputs
}

// validateCluster returns the validation result of a cluster. The validations only run again if
// their input has changed.
func (c *change) validateCluster(m *clusterMembers) (validationResult, error) {
	if c.e.validator != nil {
		return c.e.validator.validateCluster(m), nil
	}
	key := m.row.API.ID.String()
	input, err := c.clusterInput(m)
	if err != nil {
		return validationResult{}, err
	}
	inputs := m.clusterInputs(input)
	if held, ok := c.lastValidation(key); ok && held.inputs == inputs {
		if row, err := record.Validations.Modified(c.tx, record.ClusterSubject(key)); err == nil &&
			row == held.revision {
			return held.result, nil
		}
	}
	report, err := c.runClusterValidations(m.row, input)
	if err != nil {
		return validationResult{}, err
	}
	found := validationResult{report.Readiness(), messages(report.Blocking())}
	row, err := record.Validations.Modified(c.tx, record.ClusterSubject(key))
	if err != nil {
		return validationResult{}, err
	}
	c.validated[key] = cachedValidation{inputs, row, found}
	return found, nil
}

// clusterInputs returns the digest of the input of a cluster's validations.
func (m *clusterMembers) clusterInputs(input validation.ClusterInput) [sha256.Size]byte {
	text := strconv.AppendBool(nil, input.CustomManifests)
	text = encodeCatalogs(text, &input.MissingCatalogs)
	text = append(append(text, m.digest()...), m.members()...)
	return sha256.Sum256(text)
}

// members encodes the fields of all hosts that the cluster's validations read. It does not use
// JSON, which takes longer than the validations.
func (m *clusterMembers) members() []byte {
	var text []byte
	for i, h := range m.hosts {
		r := h.Record
		for _, field := range []string{
			string(h.ID()), h.Status(), conv.Value(r.Kind), string(r.Role), string(r.SuggestedRole),
			r.RequestedHostname, r.FencingCredentials,
			r.InstallationDiskID, r.InstallationDiskPath, r.SkipFormattingDisks, string(h.Stage()),
		} {
			text = append(append(text, field...), 0)
		}
		for _, number := range []int64{r.Timestamp, time.Time(r.CheckedInAt).UnixNano(), int64(m.records[i].Reported)} {
			text = binary.LittleEndian.AppendUint64(text, uint64(number))
		}
	}
	return text
}
