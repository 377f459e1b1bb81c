package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/operator"
	"landfall/appliance/engine/validation"
)

// The operators that people choose are kept among a cluster's monitored operators, each with those
// that it depends on. What is known of them is in package operator.

const (
	eventOperatorsChosen = "cluster_operators_updated" // ours
	eventDegraded        = "cluster_degraded_OLM_operators_failed"
)

// chooseOperators makes the operators of a cluster those that are asked for and the ones that they
// depend on. A name that is no operator's and a property that it does not have are refused with
// kind Invalid. Whether they go with the cluster is for checkFeatures to say.
func chooseOperators(api *models.Cluster, asked []*models.OperatorCreateParams) error {
	var chosen []string
	properties := make(map[string]string)
	for _, params := range asked {
		if params == nil {
			continue
		}
		o, ok := operator.ByName(params.Name)
		if !ok {
			return invalid("There is no operator %q; there are %s.", params.Name, strings.Join(operator.Names(), ", "))
		}
		if err := checkProperties(o, params.Properties); err != nil {
			return err
		}
		chosen = append(chosen, o.Name)
		properties[o.Name] = params.Properties
	}
	return setOperators(api, chosen, properties)
}

// updateOperators follows a change of a cluster: of its operators, when any are asked for (none is
// not nil), and else of what their dependencies depend on.
func updateOperators(api *models.Cluster, asked []*models.OperatorCreateParams) error {
	if asked != nil {
		return chooseOperators(api, asked)
	}
	if names := chosenOperators(api, false); len(names) > 0 {
		return setOperators(api, names, nil)
	}
	return nil
}

// checkProperties refuses properties of an operator that it does not have. As of now no operator
// has any: what a cluster gets is decided by its hosts and by the mirror.
func checkProperties(o *operator.Operator, text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var given map[string]json.RawMessage
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&given); err != nil {
		return invalid("The properties of operator %s are no JSON object: %s", o.Name, clause(err))
	}
	for name := range given {
		return invalid("Operator %s has no property %q; leave it out.", o.Name, name)
	}
	return nil
}

// setOperators replaces a cluster's operators; those that stay keep what is known of them.
func setOperators(api *models.Cluster, chosen []string, properties map[string]string) error {
	held := make(map[string]*models.MonitoredOperator)
	var all []*models.MonitoredOperator
	for _, m := range api.MonitoredOperators {
		if m.OperatorType == models.OperatorTypeOlm {
			held[m.Name] = m
		} else {
			all = append(all, m)
		}
	}
	for _, name := range operator.Resolve(chosen, validation.SingleNode(api)) {
		o, _ := operator.ByName(name)
		m := &models.MonitoredOperator{
			ClusterID: *api.ID, Name: o.Name, OperatorType: models.OperatorTypeOlm, Namespace: o.Namespace.Name,
			SubscriptionName: o.SubscriptionFor(api.OpenshiftVersion).Name, TimeoutSeconds: int64(o.Timeout.Seconds()),
		}
		if old := held[name]; old != nil {
			m.Properties, m.Status, m.StatusInfo, m.StatusUpdatedAt, m.Version = old.Properties, old.Status,
				old.StatusInfo, old.StatusUpdatedAt, old.Version
		}
		if text, given := properties[name]; given {
			m.Properties = text
		}
		m.DependencyOnly = !slices.Contains(chosen, name)
		all = append(all, m)
	}
	api.MonitoredOperators = all
	if why := operator.Clash(chosenOperators(api, true), api.OpenshiftVersion); why != "" {
		return invalid("%s", why)
	}
	return nil
}

// chosenOperators names a cluster's optional operators, with or without those that others only
// depend on.
func chosenOperators(api *models.Cluster, dependencies bool) []string {
	var names []string
	for _, m := range api.MonitoredOperators {
		if m.OperatorType == models.OperatorTypeOlm && (dependencies || !m.DependencyOnly) {
			names = append(names, m.Name)
		}
	}
	return names
}

// noteOperators tells people which operators a cluster gets when that has changed, and what the
// mirror lacks for them.
func (c *change) noteOperators(row *clusterRecord, before []string) error {
	now := chosenOperators(&row.API, true)
	if slices.Equal(before, now) {
		return nil
	}
	for _, name := range before {
		if !slices.Contains(now, name) {
			if err := c.setUsage(row, strings.ToUpper(name), false); err != nil {
				return err
			}
		}
	}
	for _, name := range now {
		if err := c.setUsage(row, strings.ToUpper(name), true); err != nil {
			return err
		}
	}
	message := fmt.Sprintf("Cluster %s: no operators are installed with it.", row.API.Name)
	if len(now) > 0 {
		message = fmt.Sprintf("Cluster %s: the operators that are installed with it are %s.", row.API.Name,
			strings.Join(now, ", "))
	}
	return c.clusterEvent(row, eventOperatorsChosen, models.EventSeverityInfo, "%s", message)
}

// operatorsDone tells whether each of a cluster's optional operators is there or has failed.
func operatorsDone(api *models.Cluster) bool {
	return !slices.ContainsFunc(api.MonitoredOperators, func(m *models.MonitoredOperator) bool {
		return m.OperatorType == models.OperatorTypeOlm && m.Status != models.OperatorStatusAvailable &&
			m.Status != models.OperatorStatusFailed
	})
}

// failedOperators names the optional operators of a cluster that failed.
func failedOperators(api *models.Cluster) []string {
	var names []string
	for _, m := range api.MonitoredOperators {
		if m.OperatorType == models.OperatorTypeOlm && m.Status == models.OperatorStatusFailed {
			names = append(names, m.Name)
		}
	}
	return names
}

// noteDegraded tells people which operators a cluster was installed without, if any.
func (c *change) noteDegraded(row *clusterRecord) error {
	names := failedOperators(&row.API)
	if len(names) == 0 {
		return nil
	}
	return c.clusterEvent(row, eventDegraded, models.EventSeverityWarning,
		"Cluster %s is degraded. Failed OLM operators: %s.", row.API.Name, strings.Join(names, ", "))
}

// operatorManifests renders what the planned installation's operators are brought in by.
func (p *plan) operatorManifests() (*operator.Manifests, error) {
	api := &p.row.API
	cluster := operator.Cluster{
		Version: api.OpenshiftVersion, SingleNode: p.singleNode(), Operators: chosenOperators(api, true),
		ControllerImage: p.engine.Images.Controller, Catalogs: make(map[string]string),
	}
	cluster.Compact, cluster.Disks = validation.Storage(api, p.hosts, p.engine.Requirements(api.OpenshiftVersion))
	if p.row.Release != nil {
		cluster.ControllerImage = p.row.Release.Controller
	}
	supplies := p.engine.supplies(p.row)
	for _, supply := range supplies {
		if supply.Source != "" {
			cluster.Catalogs[supply.Catalog] = supply.Source
		}
	}
	made, err := cluster.Manifests()
	if err != nil {
		return nil, fmt.Errorf("making the manifests of the operators: %w", err)
	}
	for _, supply := range supplies {
		if supply.document != nil {
			made.Install["50_openshift-operators_catalogsource_"+supply.Source+".yaml"] = supply.document
		}
	}
	hub, err := operatorHub(supplies)
	if err != nil {
		return nil, err
	}
	if hub != nil && !slices.ContainsFunc(p.row.Catalogs,
		func(n catalogNote) bool { return n.Kind == kindOperatorHub }) {
		made.Install["50_openshift-operators_operatorhub_cluster.yaml"] = hub
	}
	return made, nil
}

const (
	kindCatalogSource = "CatalogSource"
	kindOperatorHub   = "OperatorHub"
)

// catalogNote remembers an object of a cluster's manifests that says where operators come from.
type catalogNote struct {
	Manifest string `json:"manifest"` // its folder and name
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Image    string `json:"image,omitempty"`
}

// noteCatalogs keeps in mind which catalogs a manifest brings; nil content is a manifest that is
// gone.
func (c *change) noteCatalogs(row *clusterRecord, manifest string, content []byte) {
	notes := slices.DeleteFunc(slices.Clone(row.Catalogs), func(n catalogNote) bool { return n.Manifest == manifest })
	for _, source := range operator.Sources(content) {
		notes = append(notes, catalogNote{manifest, kindCatalogSource, source.Name, source.Image})
	}
	if bytes.Contains(content, []byte("kind: "+kindOperatorHub)) {
		notes = append(notes, catalogNote{Manifest: manifest, Kind: kindOperatorHub})
	}
	if slices.Equal(notes, row.Catalogs) {
		return
	}
	row.Catalogs = notes
	c.saveCluster(row)
	c.settleCluster(row.API.ID.String())
}
