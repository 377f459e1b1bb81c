package engine

import (
	"landfall/appliance/engine/inventory"
	"landfall/appliance/engine/lifecycle"
	"landfall/appliance/engine/record"
	"landfall/appliance/engine/validation"
	"landfall/appliance/engine/validationcache"
)

// validator decides whether a host or a cluster can be installed. The product uses the validations;
// random walks choose results at random.
type validator interface {
	validateHost(h *record.Host) validationcache.Result
	validateCluster(m *clusterMembers) validationcache.Result
}

// validateHost returns the validation result of a host. The validations only run again if their
// input has changed: the host's record and reports, its contact, its infra-env, its cluster, or the
// relevant fields of other hosts.
func (c *change) validateHost(h *record.Host, host *inventory.Host, m *clusterMembers) (validationcache.Result, error) {
	if !lifecycle.Validated(*h.API.Status) {
		return validationcache.Result{Status: validation.Ready}, nil
	}
	if c.e.validator != nil {
		return c.e.validator.validateHost(h), nil
	}
	key := record.HostKey(h)
	env, err := c.infraEnv(h.API.InfraEnvID.String())
	if err != nil {
		return validationcache.Result{}, err
	}
	inputs := c.digester.Host(h, env, c.connected(h), m.digest())
	return c.validateChanged(key, record.HostSubject(key), inputs,
		func() (*validation.Report, error) { return c.runHostValidations(h, host, env, m) })
}

// validateChanged returns the last validation result of an object if its input and the row of its
// results are the same. Otherwise, it runs the validations.
func (c *change) validateChanged(key, subject string, inputs validationcache.Digest,
	run func() (*validation.Report, error)) (validationcache.Result, error) {
	if held, ok := c.lastValidation(key); ok && held.Inputs == inputs {
		if row, err := record.Validations.Modified(c.tx, subject); err == nil && row == held.Revision {
			return held.Result, nil
		}
	}
	report, err := run()
	if err != nil {
		return validationcache.Result{}, err
	}
	found := validationcache.Result{Status: report.Readiness(), Failing: messages(report.Blocking())}
	row, err := record.Validations.Modified(c.tx, subject)
	if err != nil {
		return validationcache.Result{}, err
	}
	c.validated[key] = validationcache.Entry{Inputs: inputs, Revision: row, Result: found}
	return found, nil
}

// lastValidation returns the last validation result of an object: the result in this change if
// there is one, otherwise the committed result.
func (c *change) lastValidation(key string) (validationcache.Entry, bool) {
	if held, ok := c.validated[key]; ok {
		return held, true
	}
	return c.e.validationCache.Get(key)
}

// digest returns the digest of the input that the validations of all hosts share.
func (m *clusterMembers) digest() []byte {
	if m == nil {
		return nil
	}
	if m.inputs == nil {
		m.inputs = validationcache.Shared(&m.row.API, m.hosts, m.groups, m.collisions)
	}
	return m.inputs
}

// validateCluster returns the validation result of a cluster. The validations only run again if
// their input has changed.
func (c *change) validateCluster(m *clusterMembers) (validationcache.Result, error) {
	if c.e.validator != nil {
		return c.e.validator.validateCluster(m), nil
	}
	key := m.row.API.ID.String()
	input, err := c.clusterInput(m)
	if err != nil {
		return validationcache.Result{}, err
	}
	inputs := validationcache.Cluster(input, m.records, m.hosts, m.digest())
	return c.validateChanged(key, record.ClusterSubject(key), inputs,
		func() (*validation.Report, error) { return c.runClusterValidations(m.row, input) })
}
