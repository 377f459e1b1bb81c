package manifests

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"landfall/appliance/kube/apply"
)

func TestPrint_countsLandfallsWarningsOfADryRun(t *testing.T) {
	for name, c := range map[string]struct{ dryRun, own bool }{
		"Landfall's warning in a dry run": {true, true},
		"another warning in a dry run":    {true, false},
		"Landfall's warning":              {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			m := &manifests{options: apply.Options{DryRun: c.dryRun}, out: &out, errOut: &errOut}
			counted := 0
			m.print(&counted)(apply.Result{Object: &apply.Object{APIVersion: "v1", Kind: "ConfigMap", Name: "c",
				Source: apply.Source{File: "c.yaml", Line: 1}}, Text: apply.Created,
				Warnings: []apply.Warning{{Text: "It has no effect.", Own: c.own}}})
			require.Equal(t, "landfall: c.yaml:1: configmap/c: It has no effect.\n", errOut.String())
			require.Contains(t, out.String(), "configmap/c created")
			require.Equal(t, c.dryRun && c.own, counted == 1)
		})
	}
}
