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

// validator says what stands in the way of an installation. The validations are the only one but in
// random walks, which choose at random what is found.
type validator interface {
	validateHost(h *record.Host) validationResult
	validateCluster(w *clusterMembers) validationResult
}

// cachedValidation is a judgement of a host or cluster that was written: what it was made of, and
// the row of levels that it left.
type cachedValidation struct {
	inputs   [sha256.Size]byte
	revision uint64 // the revision of the row
	result   validationResult
}

// validationCache remembers the last judgement of each host and cluster, so that a change which
// concerns one host of a cluster does not have the others validated again. What is remembered only
// holds for the very inputs and the very row that it was made of.
type validationCache struct {
	mu   sync.Mutex
	held map[string]cachedValidation // by host key, or cluster id
}

func (j *validationCache) get(key string) (cachedValidation, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	found, ok := j.held[key]
	return found, ok
}

func (j *validationCache) put(key string, found cachedValidation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.held == nil {
		j.held = make(map[string]cachedValidation)
	}
	j.held[key] = found
}

func (j *validationCache) drop(key string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.held, key)
}

// validateHost says what stands in the way of a host, by its validations. They are made again when
// one of their inputs has changed: the host's record and reports, its connection, its infra-env,
// its cluster or what counts of the other hosts.
func (c *change) validateHost(h *record.Host, host *inventory.Host, w *clusterMembers) (validationResult, error) {
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
	inputs := c.inputsOf(h, env, w)
	if held, ok := c.lastValidation(key); ok && held.inputs == inputs {
		if row, err := record.Validations.Modified(c.tx, record.HostSubject(key)); err == nil && row == held.revision {
			return held.result, nil
		}
	}
	report, err := c.runHostValidations(h, host, env, w)
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

// lastValidation is the last judgement of a host: the change's own, else the last that was
// committed.
func (c *change) lastValidation(key string) (cachedValidation, bool) {
	if held, ok := c.validated[key]; ok {
		return held, true
	}
	return c.e.validationCache.get(key)
}

// The encodings from which digests of inputs are computed.
var (
	encodeHost     = canonical.EncoderOf[models.Host]()
	encodeInfraEnv = canonical.EncoderOf[models.InfraEnv]()
	encodeRoster   = canonical.EncoderOf[memberInputs]()
	encodeCatalogs = canonical.EncoderOf[map[string]string]()
)

// encodingSize is the usual size of an encoding in bytes.
const encodingSize = 4 << 10

// inputsOf returns a digest of the inputs of a host's validations.
func (c *change) inputsOf(h *record.Host, env *record.InfraEnv, w *clusterMembers) [sha256.Size]byte {
	record := h.API
	record.UpdatedAt = time.Time{} // of its last writing
	c.scratch = encodeHost(slices.Grow(c.scratch[:0], encodingSize), &record)
	c.scratch = binary.LittleEndian.AppendUint64(c.scratch, h.Reported)
	c.scratch = strconv.AppendBool(strconv.AppendBool(c.scratch, c.connected(h)), h.IsRestarting())
	c.scratch = encodeInfraEnv(c.scratch, &env.API)
	if w != nil {
		c.scratch = append(c.scratch, w.digest()...)
	}
	return sha256.Sum256(c.scratch)
}

// peerInputs are what counts of a host when another host of its cluster is validated.
type peerInputs struct {
	ID, Hostname, Fencing string
	Role                  models.HostRole
	Inventory             bool
}

// memberInputs are what the validations of a host look at beyond the host itself: the cluster with
// the groups of its connected hosts, and the others.
type memberInputs struct {
	Cluster    models.Cluster
	Peers      []peerInputs
	Groups     *network.Groups
	Collisions map[string][]string
}

// digest returns a digest of the inputs that the validations of all hosts share.
func (w *clusterMembers) digest() []byte {
	if w.inputs == nil {
		inputs := memberInputs{w.row.API, make([]peerInputs, len(w.hosts)), w.groups, w.collisions}
		inputs.Cluster.UpdatedAt = time.Time{}
		for i, h := range w.hosts {
			inputs.Peers[i] = peerInputs{string(h.ID()), h.Hostname(), h.Record.FencingCredentials,
				h.Role(), h.Inventory != nil}
		}
		sum := sha256.Sum256(encodeRoster(make([]byte, 0, encodingSize), &inputs))
		w.inputs = sum[:]
	}
	return w.inputs
}

// validateCluster says what stands in the way of a cluster. As with hosts, its validations are made
// again when one of their inputs has changed.
func (c *change) validateCluster(w *clusterMembers) (validationResult, error) {
	if c.e.validator != nil {
		return c.e.validator.validateCluster(w), nil
	}
	key := w.row.API.ID.String()
	input, err := c.clusterInput(w)
	if err != nil {
		return validationResult{}, err
	}
	inputs := w.clusterInputs(input)
	if held, ok := c.lastValidation(key); ok && held.inputs == inputs {
		if row, err := record.Validations.Modified(c.tx, record.ClusterSubject(key)); err == nil &&
			row == held.revision {
			return held.result, nil
		}
	}
	report, err := c.runClusterValidations(w.row, input)
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

// clusterInputs is a digest of all that the validations of a cluster look at.
func (w *clusterMembers) clusterInputs(input validation.ClusterInput) [sha256.Size]byte {
	text := strconv.AppendBool(nil, input.CustomManifests)
	text = encodeCatalogs(text, &input.MissingCatalogs)
	text = append(append(text, w.digest()...), w.members()...)
	return sha256.Sum256(text)
}

// members sums up what the validations of a cluster look at of each host. It is not encoded as
// JSON, which takes longer than the validations themselves.
func (w *clusterMembers) members() []byte {
	var text []byte
	for i, h := range w.hosts {
		r := h.Record
		for _, field := range []string{
			string(h.ID()), h.Status(), conv.Value(r.Kind), string(r.Role), string(r.SuggestedRole),
			r.RequestedHostname, r.FencingCredentials,
			r.InstallationDiskID, r.InstallationDiskPath, r.SkipFormattingDisks, string(h.Stage()),
		} {
			text = append(append(text, field...), 0)
		}
		for _, number := range []int64{r.Timestamp, time.Time(r.CheckedInAt).UnixNano(), int64(w.records[i].Reported)} {
			text = binary.LittleEndian.AppendUint64(text, uint64(number))
		}
	}
	return text
}
