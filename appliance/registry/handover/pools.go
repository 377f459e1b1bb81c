package handover

import (
	"context"
	"fmt"
	"strings"
)

var poolKind = resource{Group: "machineconfiguration.openshift.io", Version: "v1", Resource: "machineconfigpools"}

// poolObject is the part of a MachineConfigPool that shows its progress.
type poolObject struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Paused        bool `json:"paused"`
		Configuration struct {
			Name string `json:"name"`
		} `json:"configuration"`
	} `json:"spec"`
	Status struct {
		Configuration struct {
			Name string `json:"name"`
		} `json:"configuration"`
		MachineCount        int `json:"machineCount"`
		UpdatedMachineCount int `json:"updatedMachineCount"`
		Conditions          []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

func pools(ctx context.Context, in api) ([]poolObject, error) {
	var found struct {
		Items []poolObject `json:"items"`
	}
	if err := in.List(ctx, poolKind, "", "", &found); err != nil {
		return nil, fmt.Errorf("list the MachineConfigPools: %w", err)
	}
	return found.Items, nil
}

// configurations returns the configuration that each pool rolls out.
func configurations(found []poolObject) map[string]string {
	names := map[string]string{}
	for _, pool := range found {
		names[pool.Metadata.Name] = pool.Spec.Configuration.Name
	}
	return names
}

// rollout returns the progress of a change, whether all nodes have it, and what it waits for as a
// sentence. before are the configurations before the change: until a pool has another one, the
// machine config operator has not seen the change. Without them, nothing was changed.
func rollout(found []poolObject, before map[string]string) (shown []Pool, complete bool, message string) {
	complete = true
	var paused, degraded, waiting []string
	for _, pool := range found {
		p := Pool{Name: pool.Metadata.Name, Machines: pool.Status.MachineCount,
			Updated: pool.Status.UpdatedMachineCount, Paused: pool.Spec.Paused}
		updated := false
		for _, condition := range pool.Status.Conditions {
			if condition.Status == "True" {
				p.Degraded = p.Degraded || condition.Type == "Degraded"
				updated = updated || condition.Type == "Updated"
			}
		}
		fresh := before == nil || pool.Spec.Configuration.Name != before[p.Name]
		if !fresh {
			p.Updated = 0 // they have the former configuration
		}
		done := fresh && (p.Machines == 0 || updated && p.Updated == p.Machines &&
			pool.Status.Configuration.Name == pool.Spec.Configuration.Name)
		switch {
		case p.Degraded:
			degraded = append(degraded, p.Name)
		case !done && p.Paused:
			paused = append(paused, p.Name)
		case !fresh:
			waiting = append(waiting, p.Name)
		}
		complete = complete && done
		shown = append(shown, p)
	}
	switch {
	case len(degraded) > 0:
		message = fmt.Sprintf("Degraded MachineConfigPools: %s. See oc describe machineconfigpool; a person must "+
			"repair them.", strings.Join(degraded, ", "))
	case len(paused) > 0:
		message = fmt.Sprintf("Paused MachineConfigPools: %s. Unpause them.", strings.Join(paused, ", "))
	case len(waiting) > 0:
		message = fmt.Sprintf("The machine config operator has not rendered the change yet for: %s.",
			strings.Join(waiting, ", "))
	case !complete:
		message = "The nodes take over the change, one after the other."
	}
	return shown, complete, message
}
