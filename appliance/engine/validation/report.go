// Package validation validates whether hosts and clusters can be installed. It has every validation
// of the API by id, reports for each the finding and the remedy, and summarizes them for the state
// machines.
//
// Host and Cluster are pure functions: the time, the connection of the host and all other input are
// in their arguments, so a result can be reproduced.
//
// # How validations determine the state
//
// A host of a cluster ([Report.Verdict]), the first that applies:
//
//   - disconnected: connected or media-connected fails.
//   - discovering: has-inventory or inventory-not-fully-truncated fails.
//   - insufficient: has-min-valid-disks, has-min-cpu-cores, has-min-memory,
//     compatible-with-cluster-platform, disk-encryption-requirements-satisfied or
//     vsphere-disk-uuid-enabled fails.
//   - pending-for-input: machine-cidr-defined fails.
//   - insufficient: any other check of the list hostSufficient fails, which has all checks except
//     the advisory ones.
//   - ready: none of these. The state machine calls it known.
//
// Advisory validations of a host never hold it back: ntp-synced, mtu-valid,
// inventory-not-partially-truncated, release-domain-name-resolved-correctly, and
// container-images-available, which decides while the installation is prepared.
//
// A host without a cluster is disconnected or discovering as above, insufficient if it lacks CPU,
// memory or disks or if hostname-valid fails, and otherwise ready (known-unbound).
//
// A cluster:
//
//   - pending-for-input: machine-cidr-defined, cluster-cidr-defined, service-cidr-defined,
//     dns-domain-defined or pull-secret-set fails; and api-vips-defined or ingress-vips-defined
//     unless the addresses come from DHCP.
//   - insufficient: any other check fails.
//   - ready: none does.
//
// A validation counts as failed if its status is neither success nor disabled, and it is not among
// the cluster's ignored validations.
package validation

import (
	"encoding/json"
	"slices"

	"landfall/store/fastjson"
)

// Status is the status of a validation, as the API names it.
type Status string

// The statuses. Pending is a validation that waits for a report or an input. Error is one that is
// impossible because the reported data makes no sense.
const (
	Success  Status = "success"
	Failure  Status = "failure"
	Pending  Status = "pending"
	Error    Status = "error"
	Disabled Status = "disabled"
)

// Result is the result of one validation. Message has the finding, the requirement and the remedy,
// in one or two sentences.
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

// Verdict summarizes all validations.
type Verdict string

// The verdicts, in the order in which a host reaches them.
const (
	Disconnected    Verdict = "disconnected"
	Discovering     Verdict = "discovering"
	Insufficient    Verdict = "insufficient"
	PendingForInput Verdict = "pending-for-input"
	Ready           Verdict = "ready"
)

// stage is a group of validations that must all succeed before a host or cluster gets beyond a
// verdict.
type stage struct {
	verdict Verdict
	ids     []ID
}

// Report holds the results of all validations of one host or cluster.
type Report struct {
	results    []Result
	categories []string // of the result at the same index
	stages     []stage
	ignored    []ID
}

func (r *Report) add(category string, id ID, status Status, message string) {
	r.results = append(r.results, Result{ID: id, Status: status, Message: message})
	r.categories = append(r.categories, category)
}

// JSON returns the report as validations_info: results by category, each group in the order of the
// validations. Equal reports give the same text.
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
	text, err := fastjson.Marshal(struct { // encodes faster than a map
		Configuration []Result `json:"configuration,omitempty"`
		Hardware      []Result `json:"hardware,omitempty"`
		HostsData     []Result `json:"hosts-data,omitempty"`
		Network       []Result `json:"network,omitempty"`
		Operators     []Result `json:"operators,omitempty"`
	}{in(Configuration), in(Hardware), in(HostsData), in(Network), in(Operators)})
	if err != nil {
		return []byte("{}") // strings cannot fail to encode
	}
	return text
}

// Results returns all results in the order of the validations.
func (r *Report) Results() []Result { return slices.Clone(r.results) }

// Result returns the result of one validation, or false if the report lacks it.
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

// Failing returns the given validations that do not succeed, or all such validations if no id is
// given. Ignored validations succeed.
func (r *Report) Failing(ids ...ID) []Result {
	var failing []Result
	for _, result := range r.results {
		if (len(ids) == 0 || slices.Contains(ids, result.ID)) && !r.passes(result) {
			failing = append(failing, result)
		}
	}
	return failing
}

// Passes reports whether all of the validations succeed.
func (r *Report) Passes(ids ...ID) bool { return len(r.Failing(ids...)) == 0 }

func (r *Report) passes(result Result) bool {
	return result.Status == Success || result.Status == Disabled || slices.Contains(r.ignored, result.ID)
}

// Verdict summarizes the report; see the package comment.
func (r *Report) Verdict() Verdict {
	verdict, _ := r.decide()
	return verdict
}

// Blocking returns the validations that led to the verdict: those that must succeed next. It is
// empty if the verdict is Ready.
func (r *Report) Blocking() []Result {
	_, blocking := r.decide()
	return blocking
}

func (r *Report) decide() (Verdict, []Result) {
	failing := r.Failing()
	for _, s := range r.stages {
		passed := func(result Result) bool { return len(s.ids) > 0 && !slices.Contains(s.ids, result.ID) }
		if held := slices.DeleteFunc(slices.Clone(failing), passed); len(held) > 0 {
			return s.verdict, held
		}
	}
	return Ready, nil
}

// Ready reports whether an installation is possible.
func (r *Report) Ready() bool { return r.Verdict() == Ready }

// Insufficient reports whether the host, its network or the cluster's settings need a correction.
func (r *Report) Insufficient() bool { return r.Verdict() == Insufficient }

// HasPendingInput reports whether the user must give a setting of the cluster.
func (r *Report) HasPendingInput() bool { return r.Verdict() == PendingForInput }

// ignoredIDs parses a cluster's list of ignored validations, a JSON list of ids. Validations that
// every installation needs are never ignored. An invalid list ignores nothing.
func ignoredIDs(list string, results []Result, never []ID) []ID {
	if list == "" {
		return nil
	}
	var ids []ID
	if err := json.Unmarshal([]byte(list), &ids); err != nil {
		return nil
	}
	if slices.Contains(ids, All) {
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
