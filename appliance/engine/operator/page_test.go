package operator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"landfall/appliance/engine/pagetest"
)

// pageIntroduction is the text before the tables of docs/operators.md.
const pageIntroduction = `# Operators

Generated from ` + "`appliance/engine/operator/operators.yaml`" + ` by ` + "`make docs`" + `; do not edit.

The field ` + "`olm_operators`" + ` of a cluster (the step Operators of the page) selects operators. The
appliance adds the operators that they depend on. openshift-install gets the Namespace,
OperatorGroup and Subscription of each operator. When the operators are available, the controller in
the cluster applies their custom resources, which it downloads as ` + "`custom_manifests.json`" + `. A
user's manifest replaces the appliance's manifest of the same name;
` + "`GET …/manifests?include_system_generated=true`" + ` lists the names. If an operator fails, the cluster
is installed but degraded, and its status names the operator.

## Required content of the mirror

Operators come from catalogs, and a catalog is an image. If the mirror rules of a site do not map
the catalog of an operator, the operator's validation fails with the reason. A catalog is
available in these cases:

1. The cluster's own manifests have a CatalogSource for it. oc-mirror writes ` + "`cs-….yaml`" + `.
2. A CatalogSource for the cluster's OpenShift version came with the mirror rules.
   ` + "`mirror.idms_files`" + ` may name oc-mirror's directory, or the rules were imported.
3. A mirror rule maps the catalog's own image to a mirror by its tag.

In the first two cases the subscriptions use this CatalogSource, and it is added to the cluster.
OpenShift's own catalogs that the cluster does not use are disabled, because one unreachable catalog
blocks the installation of every operator.

These requests show the images that each operator needs, and the rules that map them:

    GET /api/landfall/v1/operators?openshift_version=4.20
    GET /api/landfall/v1/clusters/<id>/operators
    GET /api/landfall/v1/clusters/<id>/operators/imageset-config.yaml
    POST /api/landfall/v1/clusters/<id>/operators/check

The third one is the configuration by which oc-mirror copies the operators of the cluster. The last
one reads the catalogs through the mirror, finds the newest bundle of each operator's channel, and
requests every image of the bundle from the mirror. It reports missing images before the
installation.

The catalogs determine the images of a package. The repositories below can be named
without reading a catalog.
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
	line("\nA package without a channel uses its default channel. A version after a package is the first\n" +
		"OpenShift version whose catalog has the package.")
	line("\n## Hardware requirements\n")
	line("The figures are CPU cores and MiB of memory on top of OpenShift's own minimums.\n" +
		"`validations.operator_requirements` overrides them.\n")
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

// TestOperatorsPage fails if docs/operators.md differs from the table. `make docs` writes the page.
func TestOperatorsPage(t *testing.T) {
	pagetest.Compare(t, "operators.md", operatorsPage(), *update)
}
