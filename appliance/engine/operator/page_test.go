package operator

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pageIntroduction is what docs/operators.md says before its tables.
const pageIntroduction = `# Operators

Generated from ` + "`appliance/engine/operator/catalogue.yaml`" + ` by ` + "`make docs`" + `; do not edit.

A cluster is created or changed with ` + "`olm_operators`" + ` (in the page: the step Operators). It gets those operators and all that they
depend on. openshift-install is given the Namespace, OperatorGroup and Subscription of each; when the operators are there, the
controller in the cluster applies their custom resources, which it downloads as ` + "`custom_manifests.json`" + `. A manifest of the same
name that a person adds to the cluster goes over the appliance's own: ` + "`GET …/manifests?include_system_generated=true`" + ` lists the names.
An operator that fails leaves the cluster installed but degraded; the cluster's status says which.

## What the mirror must hold

Operators come from catalogs, and a catalog is an image. On a site whose mirror rules do not lead to a catalog, the check of each
operator fails and says so. A catalog is there when

1. the cluster's own manifests have a CatalogSource for it (oc-mirror writes ` + "`cs-….yaml`" + `), or
2. one came with the mirror rules (` + "`mirror.idms_files`" + ` may be oc-mirror's folder, or it was imported), for the cluster's OpenShift version, or
3. a mirror rule leads the catalog's own image by its tag to a mirror.

In the first two cases the subscriptions name that CatalogSource, it is added to the cluster, and those of OpenShift's own catalogs
that the cluster does not use are switched off, because one that can't be reached keeps every operator from being installed.

What each operator needs, and which rule leads there, is told by

    GET /api/landfall/v1/operators?openshift_version=4.20
    GET /api/landfall/v1/clusters/<id>/operators
    GET /api/landfall/v1/clusters/<id>/operators/imageset-config.yaml    for oc-mirror: copies what the cluster's operators need
    POST /api/landfall/v1/clusters/<id>/operators/check

The last one reads the catalogs through the mirror, finds the newest bundle of each operator's channel, and asks the mirror for every
image that it names: what is missing is said before the installation.

The catalogs themselves decide which images a package has; the repositories below are what is known without reading them.
`

func operatorsPage() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	b.WriteString(pageIntroduction)
	line("\n| operator | needs | package, channel | catalog | images |\n|---|---|---|---|---|")
	list := func(names []string) string { return strings.Join(names, "<br>") }
	for _, o := range All() {
		needs := slices.Clone(o.Needs)
		for _, name := range o.NeedsOnSingleNode {
			needs = append(needs, name+" (single node)")
		}
		packages := []string{o.Subscription.Package}
		if o.Subscription.Channel != "" {
			packages[0] += ", " + o.Subscription.Channel
		}
		for _, w := range o.With {
			text := w.Package
			if w.Since != "" {
				text += " (" + w.Since + ")"
			}
			packages = append(packages, text)
		}
		line("| %s<br>`%s` | %s | %s | %s | %s |", o.Title, o.Name, list(needs), list(packages), o.Subscription.Catalog,
			list(slices.Concat(o.Images, o.AdditionalImages)))
	}
	line("\nNo channel is the catalog's default one. A version behind a package is the first of OpenShift whose " +
		"catalog has it.")
	line("\n## What they need of hosts\n")
	line("On top of OpenShift's own minimums: CPU cores and MiB of memory. A site overrides them with " +
		"`validations.operator_requirements`.\n")
	line("| operator | control plane | worker | single node | also |\n|---|---|---|---|---|")
	amounts := func(a Amounts) string {
		if a == (Amounts{}) {
			return ""
		}
		return fmt.Sprintf("%d, %d", a.CPUCores, a.RAMMiB)
	}
	for _, o := range All() {
		r := o.Requirements
		single := ""
		if r.SingleNode != nil {
			single = amounts(*r.SingleNode)
		}
		also := slices.Clone(r.Says)
		for _, f := range r.From {
			also = append(also, fmt.Sprintf("From OpenShift %s: %d MiB", f.Version, f.RAMMiB))
		}
		if o.Since != "" {
			also = append(also, "OpenShift "+o.Since+" or later")
		}
		if o.SinceOnSeveralNodes != "" {
			also = append(also, "On several nodes OpenShift "+o.SinceOnSeveralNodes+" or later")
		}
		if text := amounts(r.Master) + amounts(r.Worker) + single + list(also); text != "" {
			line("| `%s` | %s | %s | %s | %s |", o.Name, amounts(r.Master), amounts(r.Worker), single, list(also))
		}
	}
	return b.String()
}

// The page fails to be what the table says when that has changed; `make docs` writes it.
func TestTheOperatorsPageIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "operators.md")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(operatorsPage()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err, "make docs writes it")
	require.Equal(t, operatorsPage(), string(text), "the catalogue has changed: make docs")
}
