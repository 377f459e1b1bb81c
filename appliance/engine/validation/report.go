// Package validation runs the validations of hosts and clusters before an installation. It has
// every validation of the API, by id. A result states the finding and its remedy. A [Report]
// summarizes the results for the state machines.
//
// Host and Cluster are pure functions: all input is in their arguments, including the time and the
// connection of the host.
//
// # Readiness
//
// The readiness of a host of a cluster is the first of this list that applies:
//
//   - disconnected: connected or media-connected fails.
//   - discovering: has-inventory or inventory-not-fully-truncated fails.
//   - insufficient: has-min-valid-disks, has-min-cpu-cores, has-min-memory,
//     compatible-with-cluster-platform, disk-encryption-requirements-satisfied or
//     vsphere-disk-uuid-enabled fails.
//   - pending-for-input: machine-cidr-defined fails.
//   - insufficient: any other validation fails that is not advisory.
//   - ready: no such validation fails. The state machine calls this state known.
//
// Advisory validations of a host never block it: ntp-synced, mtu-valid,
// inventory-not-partially-truncated, release-domain-name-resolved-correctly and
// container-images-available. The last one blocks the host only during the preparation of the
// installation.
//
// A host without a cluster is disconnected or discovering as above. It is insufficient if it lacks
// CPU, memory or disks, or if hostname-valid fails. Otherwise it is ready (known-unbound).
//
// The readiness of a cluster:
//
//   - pending-for-input: machine-cidr-defined, cluster-cidr-defined, service-cidr-defined,
//     dns-domain-defined or pull-secret-set fails. The same holds for api-vips-defined and
//     ingress-vips-defined, unless the VIPs come from DHCP.
//   - insufficient: any other validation fails.
//   - ready: no validation fails.
//
// A validation fails if its status is neither success nor disabled, unless the cluster ignores it.
package validation

import (
	"encoding/json"
	"slices"

	"landfall/store/fastjson"
)

// Status is the status of a validation, as the API names it.
type Status string

// The statuses. Pending: the validation waits for a report or an input. Error: the reported data is
// contradictory. Disabled: the validation does not apply.
const (
	Success  Status = "success"
	Failure  Status = "failure"
	Pending  Status = "pending"
	Error    Status = "error"
	Disabled Status = "disabled"
)

// Result is the result of one validation. Message states the finding, the requirement and the
// remedy in one or two sentences.
type Result struct {
	ID      ID     `json:"id"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// Categories of validations, as the API and its user interfaces group them.
const (
	Hardware      = "hardware"
	Network       = "network"
	Operators     = "operators"
	Configuration = "configuration"
	HostsData     = "hosts-data"
)

// Readiness summarizes the results of all validations of a host or cluster.
type Readiness string

// The values of Readiness, in the order in which a host reaches them.
const (
	Disconnected    Readiness = "disconnected"
	Discovering     Readiness = "discovering"
	Insufficient    Readiness = "insufficient"
	PendingForInput Readiness = "pending-for-input"
	Ready           Readiness = "ready"
)

// level is a group of validations that decide one readiness. If one of them fails, the host or
// cluster has this readiness. A level without ids consists of all validations.
type level struct {
	readiness Readiness
	ids       []ID
}

// Report holds the results of all validations of one host or cluster.
type Report struct {
	results    []Result
	categories []string // of the result at the same index
	levels     []level
	ignored    []ID
}

func (r *Report) add(category string, id ID, status Status, message string) {
	r.results = append(r.results, Result{ID: id, Status: status, Message: message})
	r.categories = append(r.categories, category)
}

// JSON returns the report in the format of the API's validations_info: results by category, in the
// order of the validations. Equal reports have equal texts.
func (r *Report) JSON() []byte {
	grouped := make([]Result, 0, len(r.results))
	in := func(category string) []Result {
		start := len(grouped)
		for i, result := range r.results {
			if r.categories[i] == category {
				grouped = append(grouped, result)
			}
		}
		return grouped[start:]
	}
	text, err := fastjson.Marshal(struct { // faster to encode than a map
		Configuration []Result `json:"configuration,omitempty"`
		Hardware      []Result `json:"hardware,omitempty"`
		HostsData     []Result `json:"hosts-data,omitempty"`
		Network       []Result `json:"network,omitempty"`
		Operators     []Result `json:"operators,omitempty"`
	}{in(Configuration), in(Hardware), in(HostsData), in(Network), in(Operators)})
	if err != nil {
		return []byte("{}") // not reached: encoding strings does not fail
	}
	return text
}

// Results returns all results in the order of the validations.
func (r *Report) Results() []Result { return slices.Clone(r.results) }

// Result returns the result of one validation. The second value is false if the report lacks it.
func (r *Report) Result(id ID) (Result, bool) {
	for i := range r.results {
		if r.results[i].ID == id {
			return r.results[i], true
		}
	}
	return Result{}, false
}

// Status returns the status of one validation, or "" if the report lacks it.
func (r *Report) Status(id ID) Status {
	result, _ := r.Result(id)
	return result.Status
}

// Failing returns the results of those given validations that fail. Without ids it returns all
// failing results. Ignored validations do not fail.
func (r *Report) Failing(ids ...ID) []Result {
	var failing []Result
	for _, result := range r.results {
		if (len(ids) == 0 || slices.Contains(ids, result.ID)) && !r.passes(result) {
			failing = append(failing, result)
		}
	}
	return failing
}

// Passes reports whether none of the validations fails.
func (r *Report) Passes(ids ...ID) bool { return len(r.Failing(ids...)) == 0 }

func (r *Report) passes(result Result) bool {
	return result.Status == Success || result.Status == Disabled || slices.Contains(r.ignored, result.ID)
}

// Readiness returns the readiness of the host or cluster. The package comment has the rules.
func (r *Report) Readiness() Readiness {
	readiness, _ := r.assess()
	return readiness
}

// Blocking returns the failing validations that decided the readiness. The list is empty if the
// readiness is Ready.
func (r *Report) Blocking() []Result {
	_, blocking := r.assess()
	return blocking
}

// assess returns the readiness and the failing validations that decided it.
func (r *Report) assess() (Readiness, []Result) {
	failing := r.Failing()
	for _, l := range r.levels {
		outside := func(result Result) bool { return len(l.ids) > 0 && !slices.Contains(l.ids, result.ID) }
		if blocking := slices.DeleteFunc(slices.Clone(failing), outside); len(blocking) > 0 {
			return l.readiness, blocking
		}
	}
	return Ready, nil
}

// Ready reports whether an installation is possible.
func (r *Report) Ready() bool { return r.Readiness() == Ready }

// Insufficient reports whether the readiness is Insufficient.
func (r *Report) Insufficient() bool { return r.Readiness() == Insufficient }

// ignoredIDs parses a cluster's ignored validations, a JSON list of ids, and removes the ids in
// never. It returns nil if the list is invalid.
func ignoredIDs(list string, results []Result, never []ID) []ID {
	if list == "" {
		return nil
	}
	var ids []ID
	if err := json.Unmarshal([]byte(list), &ids); err != nil {
		return nil
	}
	if slices.ContainsFunc(ids, ID.IsAll) {
		ids = nil
		for _, result := range results {
			ids = append(ids, result.ID)
		}
	}
	return slices.DeleteFunc(ids, func(id ID) bool { return slices.Contains(never, id) })
}

// NeverIgnoredForHosts returns the validations of hosts that can't be ignored.
func NeverIgnoredForHosts() []ID {
	return []ID{Connected, HasInventory, InventoryNotFullyTruncated, MachineCIDRDefined, HostnameUnique, HostnameValid}
}

// NeverIgnoredForClusters returns the validations of clusters that can't be ignored.
func NeverIgnoredForClusters() []ID {
	return []ID{APIVIPsDefined, IngressVIPsDefined, AllHostsAreReadyToInstall, SufficientMastersCount, PullSecretSet}
}
