// Package validation judges whether hosts and clusters can be installed. It knows every check of
// the API by id, says for each what was found and what to do, and sums them up for the state
// machines.
//
// Host and Cluster are pure functions: the time, the connection of the host and everything else
// that matters are in their arguments, so a verdict can be repeated.
//
// # What feeds which decision
//
// A host of a cluster ([Report.Verdict]), the first that applies:
//
//   - disconnected: connected or media-connected fails.
//   - discovering: has-inventory or inventory-not-fully-truncated fails.
//   - insufficient: has-min-valid-disks, has-min-cpu-cores, has-min-memory, compatible-with-cluster-platform,
//     disk-encryption-requirements-satisfied or vsphere-disk-uuid-enabled fails.
//   - pending-for-input: machine-cidr-defined fails.
//   - insufficient: any other check of the list hostSufficient fails, which is all of them but the advisory ones.
//   - ready: none of these. The state machine calls it known.
//
// Advisory checks of a host never hold it back: ntp-synced, mtu-valid,
// inventory-not-partially-truncated, release-domain-name-resolved-correctly, and
// container-images-available, which decides while the installation is prepared.
//
// A host without a cluster is judged by disconnected and discovering as above, then insufficient
// when a minimum of CPU, memory or disks is not met or hostname-valid fails, else ready
// (known-unbound).
//
// A cluster:
//
//   - pending-for-input: machine-cidr-defined, cluster-cidr-defined, service-cidr-defined, dns-domain-defined or
//     pull-secret-set fails; and api-vips-defined or ingress-vips-defined unless the addresses come from DHCP.
//   - insufficient: any other check fails.
//   - ready: none does.
//
// A check counts as failed when its status is anything but success or disabled, and it is not among
// the cluster's ignored validations.
package validation

import (
	"encoding/json"
	"slices"

	"landfall/store/fastjson"
)

// Status is the outcome of a check, as the API names it.
type Status string

// The outcomes. Pending is a check that waits for something to be reported or chosen; Error is one
// that could not be made because what was reported makes no sense.
const (
	Success  Status = "success"
	Failure  Status = "failure"
	Pending  Status = "pending"
	Error    Status = "error"
	Disabled Status = "disabled"
)

// Result is the outcome of one check. Message says what was found, what is needed and what to do,
// in one or two sentences.
type Result struct {
	ID      ID     `json:"id"`
	Status  Status `json:"status"`
	Message string `json:"message"`
}

// Categories of checks, as the API and its user interfaces group them.
const (
	Hardware      = "hardware"
	Network       = "network"
	Operators     = "operators"
	Configuration = "configuration"
	HostsData     = "hosts-data"
)

// Verdict is what all checks together say.
type Verdict string

// The verdicts, in the order in which a host comes through them.
const (
	Disconnected    Verdict = "disconnected"
	Discovering     Verdict = "discovering"
	Insufficient    Verdict = "insufficient"
	PendingForInput Verdict = "pending-for-input"
	Ready           Verdict = "ready"
)

// stage is a group of checks that must all pass for a host or cluster to come further than a
// verdict.
type stage struct {
	verdict Verdict
	ids     []ID
}

// Report holds the results of all checks of one host or cluster.
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

// JSON renders the report as validations_info: results by category, each group in the order in
// which the checks are made. Equal reports give the same text.
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
	text, err := fastjson.Marshal(struct { // which is rendered faster than a map
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

// Results lists all results in the order in which the checks are made.
func (r *Report) Results() []Result { return slices.Clone(r.results) }

// Result is the outcome of one check. It is false when the report has no such check.
func (r *Report) Result(id ID) (Result, bool) {
	for i := range r.results {
		if r.results[i].ID == id {
			return r.results[i], true
		}
	}
	return Result{}, false
}

// Status is the outcome of one check, "" when the report has no such check.
func (r *Report) Status(id ID) Status {
	result, _ := r.Result(id)
	return result.Status
}

// Failing lists those of the checks that do not pass, all of them when no id is given. Checks that
// are ignored pass.
func (r *Report) Failing(ids ...ID) []Result {
	var failing []Result
	for _, result := range r.results {
		if (len(ids) == 0 || slices.Contains(ids, result.ID)) && !r.passes(result) {
			failing = append(failing, result)
		}
	}
	return failing
}

// Passes tells whether all of the checks pass.
func (r *Report) Passes(ids ...ID) bool { return len(r.Failing(ids...)) == 0 }

func (r *Report) passes(result Result) bool {
	return result.Status == Success || result.Status == Disabled || slices.Contains(r.ignored, result.ID)
}

// Verdict sums up the report; see the package comment.
func (r *Report) Verdict() Verdict {
	verdict, _ := r.decide()
	return verdict
}

// Blocking lists the checks that led to the verdict: those that must pass next. It is empty when
// the verdict is Ready.
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

// Ready tells whether nothing stands in the way of an installation.
func (r *Report) Ready() bool { return r.Verdict() == Ready }

// Insufficient tells whether something must be put right at a host, in its network or in the
// cluster's settings.
func (r *Report) Insufficient() bool { return r.Verdict() == Insufficient }

// HasPendingInput tells whether a setting of the cluster is missing that a person must give.
func (r *Report) HasPendingInput() bool { return r.Verdict() == PendingForInput }

// ignoredIDs reads a cluster's list of ignored validations, a JSON list of ids. Checks that an
// installation cannot do without are never ignored. A list that cannot be read ignores nothing.
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

// NeverIgnoredForHosts lists the checks of hosts that cannot be ignored.
func NeverIgnoredForHosts() []ID {
	return []ID{Connected, HasInventory, InventoryNotFullyTruncated, MachineCIDRDefined, HostnameUnique, HostnameValid}
}

// NeverIgnoredForClusters lists the checks of clusters that cannot be ignored.
func NeverIgnoredForClusters() []ID {
	return []ID{APIVIPsDefined, IngressVIPsDefined, AllHostsAreReadyToInstall, SufficientMastersCount, PullSecretSet}
}
