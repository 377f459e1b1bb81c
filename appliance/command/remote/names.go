package remote

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"landfall/web/api"
)

// APIPath is the prefix of the paths of the Assisted Installer's API.
const APIPath = api.BasePath + "/v2"

// ClusterPath returns the path of a cluster.
func ClusterPath(id string) string { return APIPath + "/clusters/" + url.PathEscape(id) }

// InfraEnvPath returns the path of an infra-env.
func InfraEnvPath(id string) string { return APIPath + "/infra-envs/" + url.PathEscape(id) }

// HostPath returns the path of a host.
func HostPath(infraEnv, id string) string {
	return InfraEnvPath(infraEnv) + "/hosts/" + url.PathEscape(id)
}

// named is an object with an ID and a name.
type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// noun describes a kind of objects in messages.
type noun struct{ one, many, list, path string }

func clusterNoun() noun {
	return noun{"cluster", "clusters", "landfall cluster list", "/clusters"}
}

func infraEnvNoun() noun {
	return noun{"infra-env", "infra-envs", "landfall infra-env list", "/infra-envs"}
}

// ClusterID returns the ID of a cluster that is named by its ID or its name.
func (c *Client) ClusterID(ctx context.Context, wanted string) (string, error) {
	return c.identify(ctx, clusterNoun(), wanted)
}

// Resolve replaces the name of a cluster with its ID. IDs and "" remain unchanged.
func (c *Client) Resolve(ctx context.Context, wanted *string) error {
	if *wanted == "" {
		return nil
	}
	id, err := c.ClusterID(ctx, *wanted)
	if err == nil {
		*wanted = id
	}
	return err
}

// InfraEnvID returns the ID of an infra-env that is named by its ID or its name.
func (c *Client) InfraEnvID(ctx context.Context, wanted string) (string, error) {
	return c.identify(ctx, infraEnvNoun(), wanted)
}

func (c *Client) identify(ctx context.Context, noun noun, wanted string) (string, error) {
	if _, err := uuid.Parse(wanted); err == nil {
		return wanted, nil
	}
	var all []named
	if err := c.Call(ctx, http.MethodGet, APIPath+noun.path, nil, &all); err != nil {
		return "", err
	}
	var ids []string
	for _, one := range all {
		if one.Name == wanted {
			ids = append(ids, one.ID)
		}
	}
	switch len(ids) {
	case 0:
		return "", fmt.Errorf("the %s %s does not exist; %s lists all %s", noun.one, wanted, noun.list, noun.many)
	case 1:
		return ids[0], nil
	}
	return "", fmt.Errorf("%d %s have the name %s; give the ID from %s", len(ids), noun.many, wanted,
		noun.list+" -o wide")
}

// ClusterNames returns the names of all clusters.
func (c *Client) ClusterNames(ctx context.Context) ([]string, error) {
	return c.names(ctx, clusterNoun())
}

// InfraEnvNames returns the names of all infra-envs.
func (c *Client) InfraEnvNames(ctx context.Context) ([]string, error) {
	return c.names(ctx, infraEnvNoun())
}

func (c *Client) names(ctx context.Context, noun noun) ([]string, error) {
	var all []named
	if err := c.Call(ctx, http.MethodGet, APIPath+noun.path, nil, &all); err != nil {
		return nil, err
	}
	var found []string
	for _, one := range all {
		found = append(found, one.Name)
	}
	return found, nil
}

// Host is a host with the JSON of the API.
type Host struct {
	ID         string `json:"id"`
	InfraEnvID string `json:"infra_env_id"`
	ClusterID  string `json:"cluster_id"`
	Requested  string `json:"requested_hostname"`
	Inventory  string `json:"inventory"`

	JSON json.RawMessage `json:"-"`
}

// Name returns the name that a person gave the host, or the one that the host reported.
func (h *Host) Name() string {
	if h.Requested != "" {
		return h.Requested
	}
	var inventory struct {
		Hostname string `json:"hostname"`
	}
	if err := json.Unmarshal([]byte(h.Inventory), &inventory); err == nil && inventory.Hostname != "" {
		return inventory.Hostname
	}
	return h.ID
}

// Hosts returns the hosts of all infra-envs, or of one (its ID), by name.
func (c *Client) Hosts(ctx context.Context, infraEnv string) ([]Host, error) {
	envs := []named{{ID: infraEnv}}
	if infraEnv == "" {
		if err := c.Call(ctx, http.MethodGet, APIPath+"/infra-envs", nil, &envs); err != nil {
			return nil, err
		}
	}
	var all []Host
	for _, env := range envs {
		var list []json.RawMessage
		if err := c.Call(ctx, http.MethodGet, InfraEnvPath(env.ID)+"/hosts", nil, &list); err != nil {
			return nil, err
		}
		for _, one := range list {
			host := Host{JSON: one}
			if err := json.Unmarshal(one, &host); err != nil {
				return nil, fmt.Errorf("the host in the response does not match the API: %w", err)
			}
			all = append(all, host)
		}
	}
	slices.SortStableFunc(all, func(a, b Host) int { return natural(a.Name(), b.Name()) })
	return all, nil
}

// natural compares names so that host-2 is before host-10.
func natural(a, b string) int {
	headA, headB := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	if headA != headB {
		return strings.Compare(a, b)
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// Host finds a host by its ID, the beginning of its ID, or its name, among all hosts or those of a
// cluster (its ID).
func (c *Client) Host(ctx context.Context, wanted, cluster string) (*Host, error) {
	all, err := c.Hosts(ctx, "")
	if err != nil {
		return nil, err
	}
	var found []*Host
	for i := range all {
		host := &all[i]
		if cluster != "" && host.ClusterID != cluster {
			continue
		}
		if host.ID == wanted {
			return host, nil
		}
		if host.Name() == wanted || len(wanted) >= 8 && strings.HasPrefix(host.ID, wanted) {
			found = append(found, host)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("the host %s does not exist; landfall host list lists all hosts", wanted)
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d hosts match %s; use the ID of one; landfall host list -o wide shows the IDs", len(found),
		wanted)
}
