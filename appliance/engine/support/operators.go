package support

import (
	"slices"
	"strings"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/operator"
)

// operators returns the optional operators as features.
func operators() []feature {
	clouds := platforms{models.PlatformTypeVsphere, models.PlatformTypeNutanix}
	preview := models.SupportLevelDevPreview
	return []feature{
		{
			id: models.FeatureSupportLevelIDLVM, operator: "lvm", since: "4.11",
			levels: map[string]models.SupportLevel{"4.11": preview}, notOn: clouds, notFor: archs{ibmZ, power},
			against:       ids{nutanix, vSphere, models.FeatureSupportLevelIDODF},
			againstBefore: map[string][]models.FeatureSupportLevelID{"4.15": {vipAllocation, clusterManaged}},
		},
		{id: models.FeatureSupportLevelIDODF, operator: "odf", needs: ids{models.FeatureSupportLevelIDLSO},
			notOnOracle: true, notFor: archs{arm}, against: ids{singleNode, models.FeatureSupportLevelIDLVM,
				oracleCloud}},
		{id: models.FeatureSupportLevelIDLSO, operator: "lso", notFor: archs{arm}},
		{
			id: models.FeatureSupportLevelIDCNV, operator: "cnv", notOn: clouds, notFor: archs{ibmZ, power},
			against:      ids{nutanix, vSphere},
			notForBefore: map[models.ArchitectureSupportLevelID]string{arm: "4.14"},
			with:         map[models.ArchitectureSupportLevelID]models.SupportLevel{arm: preview},
		},
		{id: models.FeatureSupportLevelIDMCE, operator: "mce", since: "4.10",
			notOn: platforms{models.PlatformTypeNutanix}, against: ids{nutanix}},
		{id: models.FeatureSupportLevelIDMTV, operator: "mtv", needs: ids{models.FeatureSupportLevelIDCNV},
			since: "4.14", notOn: clouds, notFor: archs{arm, ibmZ, power}, against: ids{nutanix, vSphere}},
		{id: models.FeatureSupportLevelIDOSC, operator: "osc",
			needs: ids{models.FeatureSupportLevelIDNODEFEATUREDISCOVERY}, since: "4.10", notOn: clouds,
			notFor: archs{arm, ibmZ, power}, against: ids{nutanix, vSphere}},
		{
			id: models.FeatureSupportLevelIDNMSTATE, operator: "nmstate", since: "4.12",
			notOn:  platforms{models.PlatformTypeNutanix, models.PlatformTypeExternal},
			notFor: archs{arm, ibmZ, power}, against: ids{nutanix, externalKind, oracleCloud},
		},
		{id: models.FeatureSupportLevelIDNODEFEATUREDISCOVERY, operator: "node-feature-discovery", since: "4.6",
			normal: preview, notFor: archs{power, ibmZ}},
		{id: models.FeatureSupportLevelIDNVIDIAGPU, operator: "nvidia-gpu",
			needs: ids{models.FeatureSupportLevelIDNODEFEATUREDISCOVERY}, normal: preview,
			notFor: archs{arm, power, ibmZ}},
		{id: models.FeatureSupportLevelIDAMDGPU, operator: "amd-gpu",
			needs:  ids{models.FeatureSupportLevelIDNODEFEATUREDISCOVERY, models.FeatureSupportLevelIDKMM},
			normal: preview, notFor: archs{arm, power, ibmZ}},
		{id: models.FeatureSupportLevelIDKMM, operator: "kmm", normal: preview},
		{id: models.FeatureSupportLevelIDPIPELINES, operator: "pipelines", normal: preview},
		{id: models.FeatureSupportLevelIDSERVICEMESH, operator: "servicemesh", normal: preview},
		{id: models.FeatureSupportLevelIDSERVERLESS, operator: "serverless", normal: preview},
		{id: models.FeatureSupportLevelIDAUTHORINO, operator: "authorino", normal: preview, notFor: archs{arm}},
		{
			id: models.FeatureSupportLevelIDOPENSHIFTAI, operator: "openshift-ai",
			needs: ids{models.FeatureSupportLevelIDLVM}, since: "4.12", normal: preview,
			notOnOracle: true, notFor: archs{arm, power, ibmZ}, against: ids{oracleCloud},
		},
		{id: models.FeatureSupportLevelIDNODEHEALTHCHECK, operator: "node-healthcheck", against: ids{singleNode}},
		{id: models.FeatureSupportLevelIDSELFNODEREMEDIATION, operator: "self-node-remediation",
			needs: ids{models.FeatureSupportLevelIDNODEHEALTHCHECK}, normal: models.SupportLevelTechPreview,
			against: ids{singleNode}},
		{id: models.FeatureSupportLevelIDFENCEAGENTSREMEDIATION, operator: "fence-agents-remediation",
			needs: ids{models.FeatureSupportLevelIDNODEHEALTHCHECK}, against: ids{singleNode}},
		{id: models.FeatureSupportLevelIDNODEMAINTENANCE, operator: "node-maintenance", against: ids{singleNode}},
		{id: models.FeatureSupportLevelIDKUBEDESCHEDULER, operator: "kube-descheduler", against: ids{singleNode}},
		{id: models.FeatureSupportLevelIDCLUSTEROBSERVABILITY, operator: "cluster-observability",
			needs: ids{idOpenShiftLogged}},
		{id: models.FeatureSupportLevelIDNUMARESOURCES, operator: "numaresources"},
		{id: models.FeatureSupportLevelIDOADP, operator: "oadp"},
		{id: models.FeatureSupportLevelIDMETALLB, operator: "metallb", since: "4.11"},
		{id: idLoki, operator: "loki", since: "4.17"},
		{id: idOpenShiftLogged, operator: "openshift-logging", needs: ids{idLoki}, since: "4.17"},
	}
}

// Operators returns the names of all optional operators in alphabetical order.
func Operators() []string {
	var names []string
	for _, operator := range operators() {
		names = append(names, operator.operator)
	}
	slices.Sort(names)
	return names
}

// Bundle is a set of operators that are selected together.
type Bundle = operator.Bundle

// Bundles returns the bundles, with the operators for clusters that use the given features. With a
// query, it returns only bundles whose operators are all supported.
func Bundles(q *Query, using []models.FeatureSupportLevelID) []Bundle {
	found := []Bundle{}
	for _, bundle := range bundles(using) {
		if q != nil {
			if !fits(bundle.Operators, *q, using) {
				continue
			}
			bundle.Optional = slices.DeleteFunc(bundle.Optional, func(name string) bool {
				return !fits([]string{name}, *q, using)
			})
		}
		found = append(found, bundle)
	}
	return found
}

// BundleByID returns a bundle, whether or not its operators are supported. The second value is
// false for an unknown id.
func BundleByID(id string, using []models.FeatureSupportLevelID) (Bundle, bool) {
	all := bundles(using)
	at := slices.IndexFunc(all, func(b Bundle) bool { return b.ID == id })
	if at < 0 {
		return Bundle{}, false
	}
	return all[at], true
}

func bundles(using []models.FeatureSupportLevelID) []Bundle {
	return operator.Bundles(slices.Contains(using, singleNode))
}

// fits reports whether all operators are supported in clusters that match a query and use the
// features.
func fits(names []string, q Query, using []models.FeatureSupportLevelID) bool {
	for _, f := range Features(q) {
		if f.Operator == "" || !slices.Contains(names, f.Operator) {
			continue
		}
		if !available(f.Level) || slices.ContainsFunc(f.Incompatibilities,
			func(id models.FeatureSupportLevelID) bool { return slices.Contains(using, id) }) {
			return false
		}
	}
	return true
}

// IsOperator reports whether an optional operator has this name.
func IsOperator(name string) bool {
	return slices.Contains(Operators(), strings.TrimSpace(name))
}
