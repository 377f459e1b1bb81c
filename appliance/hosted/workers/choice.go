package workers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-openapi/swag/conv"
	"k8s.io/apimachinery/pkg/util/validation"

	"landfall/appliance/engine/view"
	"landfall/appliance/fault"
	"landfall/appliance/hosted/readiness"
	"landfall/appliance/hosted/record"
	"landfall/store"
)

// Check returns why a management cluster can't have the workers that its row names.
func (s *Service) Check(ctx context.Context, m *record.Management) error {
	if len(m.Workers) == 0 {
		return nil
	}
	if m.ClusterID == "" {
		return fault.New(fault.Conflict, "The appliance did not install the management cluster %s and has no "+
			"kubeconfig of it. Its workers are hosts of its own assisted service.", m.Consumer)
	}
	if err := s.DB.View(func(tx *store.Tx) error { return checkRows(tx, s.Engine.Rows(tx), m) }); err != nil {
		return err
	}
	client, err := s.Connect(m.ClusterID)
	if err != nil {
		return err
	}
	defer client.Close()
	// A cluster that does not answer is checked again before anything is done there.
	if problem, err := readiness.Workers(ctx, client); err == nil && problem != "" {
		return fault.New(fault.Conflict, "%s", problem)
	}
	return nil
}

func checkRows(tx *store.Tx, rows view.Rows, m *record.Management) error {
	wanted := map[string]bool{}
	for _, source := range m.Workers {
		env, err := rows.InfraEnv(source.InfraEnvID)
		if err != nil {
			return err
		}
		name := conv.Value(env.Name)
		switch problems := validation.IsValidLabelValue(source.Profile); {
		case source.Profile == "" || len(problems) > 0:
			return fault.New(fault.Invalid, "The hardware profile %q of infra-env %s is not a label value, such as "+
				"large.", source.Profile, name)
		case wanted[source.InfraEnvID]:
			return fault.New(fault.Invalid, "The infra-env %s is named twice.", name)
		case env.ClusterID != "":
			return fault.New(fault.Conflict, "The infra-env %s belongs to a cluster, so its hosts can't be workers of "+
				"hosted clusters. Use an infra-env without a cluster.", name)
		}
		wanted[source.InfraEnvID] = true
	}
	all, err := record.Managements(tx)
	for _, other := range all {
		for _, source := range other.Workers {
			if other.Consumer != m.Consumer && wanted[source.InfraEnvID] {
				return fault.New(fault.Conflict, "The hosts of infra-env %s are already offered to the management "+
					"cluster %s.", source.InfraEnvID, other.Consumer)
			}
		}
	}
	return err
}

// Set chooses the infra-envs whose hosts are offered to a management cluster; none: its own
// assisted service has the workers. Hosts that are part of a node pool are followed until it
// releases them.
func (s *Service) Set(ctx context.Context, consumer string, wanted []record.Workers) error {
	var m *record.Management
	if err := s.DB.View(func(tx *store.Tx) (err error) {
		m, err = managementOf(tx, consumer)
		return err
	}); err != nil {
		return err
	}
	m.Workers = wanted
	if err := s.Check(ctx, m); err != nil {
		return err
	}
	return s.DB.Update(ctx, func(tx *store.Tx) error {
		m, err := managementOf(tx, consumer)
		if err != nil {
			return err
		}
		m.Workers = wanted
		if err := checkRows(tx, s.Engine.Rows(tx), m); err != nil {
			return err
		}
		return record.PutManagement(tx, m)
	})
}

func managementOf(tx *store.Tx, consumer string) (*record.Management, error) {
	m, err := record.GetManagement(tx, consumer)
	if err == nil && m == nil {
		err = fault.New(fault.NotFound, "There is no management cluster %s.", consumer)
	}
	return m, err
}

// Overview says which hosts are offered to a management cluster.
type Overview struct {
	Workers []record.Workers `json:"workers"` // empty: the cluster's own assisted service has them
	Problem string           `json:"problem,omitempty"`
	Since   time.Time        `json:"problem_since,omitzero"`
	Hosts   []Host           `json:"hosts"`
}

// Host is a host with an Agent on a management cluster, or one that can't be offered.
type Host struct {
	ID         string `json:"id"`
	InfraEnvID string `json:"infra_env_id,omitempty"`
	Name       string `json:"name,omitempty"`
	Status     string `json:"status,omitempty"` // "": the host does not exist
	// ClusterDeployment is the one of the hosted cluster whose node pool has chosen the host, as
	// namespace/name, or "".
	ClusterDeployment string `json:"cluster_deployment,omitempty"`
	ClusterID         string `json:"cluster_id,omitempty"` // of the engine
	Problem           string `json:"problem,omitempty"`
}

// Overview returns which hosts are offered to a management cluster.
func (s *Service) Overview(consumer string) (*Overview, error) {
	o := &Overview{Workers: []record.Workers{}, Hosts: []Host{}}
	return o, s.DB.View(func(tx *store.Tx) error {
		m, err := managementOf(tx, consumer)
		if err != nil {
			return err
		}
		state, err := GetState(tx, m.Consumer)
		if err != nil {
			return err
		}
		all, err := Offers(tx, m.Consumer)
		if err != nil {
			return err
		}
		o.Workers = append(o.Workers, m.Workers...)
		o.Problem, o.Since = state.Problem, state.Since
		rows := s.Engine.Rows(tx)
		keys, err := rows.HostKeys()
		if err != nil {
			return err
		}
		shown := map[string]*Host{}
		for _, row := range all {
			shown[row.HostID] = &Host{ID: row.HostID, ClusterDeployment: row.Choice.cluster(), ClusterID: row.Bound}
		}
		for id, problem := range state.Hosts {
			if shown[id] == nil {
				shown[id] = &Host{ID: id}
			}
			shown[id].Problem = problem
		}
		for _, key := range keys {
			_, id, _ := strings.Cut(key, "/")
			if shown[id] == nil {
				continue
			}
			host, err := rows.Host(key)
			if store.IsDamaged(err) {
				continue // its problem says so
			}
			if err != nil {
				return err
			}
			shown[id].InfraEnvID, shown[id].Name, shown[id].Status = host.InfraEnvID.String(), host.RequestedHostname,
				conv.Value(host.Status)
		}
		for _, id := range slices.Sorted(maps.Keys(shown)) {
			o.Hosts = append(o.Hosts, *shown[id])
		}
		return nil
	})
}
