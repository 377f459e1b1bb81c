package operator

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/fault"
	"landfall/appliance/sentence"
)

// The selected operators of a cluster, and their dependencies, are among its monitored operators.

// Select replaces the operators of a cluster by the requested ones and their dependencies. It fails
// with kind Invalid for an unknown operator, for an unknown property, and for operators that
// exclude each other. It does not check whether the cluster's features support the operators.
func Select(cluster *models.Cluster, requested []*models.OperatorCreateParams) error {
	var names []string
	properties := make(map[string]string)
	for _, params := range requested {
		if params == nil {
			continue
		}
		o, ok := ByName(params.Name)
		if !ok {
			return fault.New(fault.Invalid, "There is no operator %q; choose from %s.", params.Name,
				strings.Join(Names(), ", "))
		}
		if err := o.checkProperties(params.Properties); err != nil {
			return err
		}
		names = append(names, o.Name)
		properties[o.Name] = params.Properties
	}
	return setSelection(cluster, names, properties)
}

// UpdateSelection updates the operators of a changed cluster. Requested operators replace the
// selection, even if the list is empty. A nil list keeps the selection and updates the
// dependencies.
func UpdateSelection(cluster *models.Cluster, requested []*models.OperatorCreateParams) error {
	if requested != nil {
		return Select(cluster, requested)
	}
	if names := Selected(cluster, false); len(names) > 0 {
		return setSelection(cluster, names, nil)
	}
	return nil
}

// checkProperties rejects unknown properties of the operator. No operator has properties at
// present: the cluster's hosts and the mirror determine what is installed.
func (o *Operator) checkProperties(text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var given map[string]json.RawMessage
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&given); err != nil {
		return fault.New(fault.Invalid, "The properties of operator %s are not a JSON object: %s", o.Name,
			sentence.Ending(err))
	}
	for name := range given {
		return fault.New(fault.Invalid, "Operator %s has no property %q; leave it out.", o.Name, name)
	}
	return nil
}

// setSelection replaces a cluster's operators. Operators that the cluster keeps also keep their
// status.
func setSelection(cluster *models.Cluster, names []string, properties map[string]string) error {
	former := make(map[string]*models.MonitoredOperator)
	var all []*models.MonitoredOperator
	for _, m := range cluster.MonitoredOperators {
		if m.OperatorType == models.OperatorTypeOlm {
			former[m.Name] = m
		} else {
			all = append(all, m)
		}
	}
	for _, name := range Resolve(names, cluster.ControlPlaneCount == 1) {
		o, _ := ByName(name)
		m := &models.MonitoredOperator{
			ClusterID: *cluster.ID, Name: o.Name, OperatorType: models.OperatorTypeOlm, Namespace: o.Namespace.Name,
			SubscriptionName: o.SubscriptionFor(cluster.OpenshiftVersion).Name,
			TimeoutSeconds:   int64(o.Timeout.Seconds()),
		}
		if old := former[name]; old != nil {
			m.Properties, m.Status, m.StatusInfo, m.StatusUpdatedAt, m.Version = old.Properties, old.Status,
				old.StatusInfo, old.StatusUpdatedAt, old.Version
		}
		if text, given := properties[name]; given {
			m.Properties = text
		}
		m.DependencyOnly = !slices.Contains(names, name)
		all = append(all, m)
	}
	cluster.MonitoredOperators = all
	if why := Conflict(Selected(cluster, true), cluster.OpenshiftVersion); why != "" {
		return fault.New(fault.Invalid, "%s", why)
	}
	return nil
}

// Selected returns the names of a cluster's optional operators. Operators that were added only as
// dependencies are included on request.
func Selected(cluster *models.Cluster, dependencies bool) []string {
	var names []string
	for _, m := range cluster.MonitoredOperators {
		if m.OperatorType == models.OperatorTypeOlm && (dependencies || !m.DependencyOnly) {
			names = append(names, m.Name)
		}
	}
	return names
}

// Finished reports whether each of a cluster's optional operators is available or failed.
func Finished(cluster *models.Cluster) bool {
	return !slices.ContainsFunc(cluster.MonitoredOperators, func(m *models.MonitoredOperator) bool {
		return m.OperatorType == models.OperatorTypeOlm && m.Status != models.OperatorStatusAvailable &&
			m.Status != models.OperatorStatusFailed
	})
}

// PlatformAvailable reports whether the operators that every cluster has are available.
func PlatformAvailable(cluster *models.Cluster) bool {
	found := false
	for _, m := range cluster.MonitoredOperators {
		if m.OperatorType != models.OperatorTypeBuiltin {
			continue
		}
		if m.Status != models.OperatorStatusAvailable {
			return false
		}
		found = true
	}
	return found
}

// Failed returns the names of a cluster's optional operators that failed.
func Failed(cluster *models.Cluster) []string {
	var names []string
	for _, m := range cluster.MonitoredOperators {
		if m.OperatorType == models.OperatorTypeOlm && m.Status == models.OperatorStatusFailed {
			names = append(names, m.Name)
		}
	}
	return names
}
