package support

import (
	"slices"
	"sync"

	"github.com/openshift/assisted-service/models"
)

// TwoNodesWithFencing is a feature that the models of the API lack.
const TwoNodesWithFencing models.FeatureSupportLevelID = "TNF"

// More features that the models of the API lack.
const (
	idTNF                                          = TwoNodesWithFencing
	idCilium          models.FeatureSupportLevelID = "CILIUM_NETWORK_TYPE"
	idCalico          models.FeatureSupportLevelID = "CALICO_NETWORK_TYPE"
	idCiscoACI        models.FeatureSupportLevelID = "CISCO_ACI_NETWORK_TYPE"
	idNoNetwork       models.FeatureSupportLevelID = "NONE_NETWORK_TYPE"
	idPrimaryIPv6     models.FeatureSupportLevelID = "DUAL_STACK_PRIMARY_IPV6"
	idLoki            models.FeatureSupportLevelID = "LOKI"
	idOpenShiftLogged models.FeatureSupportLevelID = "OPENSHIFT_LOGGING"
)

// NewerFeatures returns the features that the models of the API lack.
func NewerFeatures() []models.FeatureSupportLevelID {
	return []models.FeatureSupportLevelID{idTNF, idCilium, idCalico, idCiscoACI, idNoNetwork, idPrimaryIPv6, idLoki,
		idOpenShiftLogged}
}

// Short names for frequent values of the tables.
const (
	arm   = models.ArchitectureSupportLevelIDARM64ARCHITECTURE
	ibmZ  = models.ArchitectureSupportLevelIDS390XARCHITECTURE
	power = models.ArchitectureSupportLevelIDPPC64LEARCHITECTURE
	multi = models.ArchitectureSupportLevelIDMULTIARCHRELEASEIMAGE

	singleNode     = models.FeatureSupportLevelIDSNO
	arbiter        = models.FeatureSupportLevelIDTNA
	nutanix        = models.FeatureSupportLevelIDNUTANIXINTEGRATION
	vSphere        = models.FeatureSupportLevelIDVSPHEREINTEGRATION
	oracleCloud    = models.FeatureSupportLevelIDEXTERNALPLATFORMOCI
	externalKind   = models.FeatureSupportLevelIDEXTERNALPLATFORM
	bareMetal      = models.FeatureSupportLevelIDBAREMETALPLATFORM
	noPlatform     = models.FeatureSupportLevelIDNONEPLATFORM
	vipAllocation  = models.FeatureSupportLevelIDVIPAUTOALLOC
	clusterManaged = models.FeatureSupportLevelIDCLUSTERMANAGEDNETWORKING
	userManaged    = models.FeatureSupportLevelIDUSERMANAGEDNETWORKING
	platManaged    = models.FeatureSupportLevelIDPLATFORMMANAGEDNETWORKING
	userBalancer   = models.FeatureSupportLevelIDUSERMANAGEDLOADBALANCER
	dualStack      = models.FeatureSupportLevelIDDUALSTACK
	dualStackVIPs  = models.FeatureSupportLevelIDDUALSTACKVIPS
	largeHA        = models.FeatureSupportLevelIDNONSTANDARDHACONTROLPLANE
)

type (
	ids       = []models.FeatureSupportLevelID
	archs     = []models.ArchitectureSupportLevelID
	platforms = []models.PlatformType
)

// features returns the table of all features. It is built once, because each change of a cluster is
// checked against it.
var features = sync.OnceValue(func() []feature {
	return slices.Concat(topologies(), networking(), networkTypes(), platformTable(), operators())
})

func topologies() []feature {
	oldMainframe := map[models.ArchitectureSupportLevelID]string{ibmZ: "4.13", power: "4.13"}
	onMainframe := func(q Query) (models.SupportLevel, models.IncompatibilityReason, bool) {
		v, _ := parseMinor(q.Version)
		arch := architectureID(q.Architecture)
		return models.SupportLevelDevPreview, "", q.Platform != models.PlatformTypeNutanix &&
			q.Platform != models.PlatformTypeVsphere &&
			(arch == ibmZ || arch == power) && v.is("4.13")
	}
	return []feature{
		{
			id: singleNode, notForBefore: oldMainframe, special: onMainframe,
			notOn: platforms{models.PlatformTypeNutanix, models.PlatformTypeVsphere},
			against: ids{
				models.FeatureSupportLevelIDODF, nutanix, vSphere, clusterManaged, vipAllocation, userBalancer,
				models.FeatureSupportLevelIDNODEHEALTHCHECK,
				models.FeatureSupportLevelIDSELFNODEREMEDIATION, models.FeatureSupportLevelIDFENCEAGENTSREMEDIATION,
				models.FeatureSupportLevelIDNODEMAINTENANCE, models.FeatureSupportLevelIDKUBEDESCHEDULER,
			},
			againstBefore: map[string][]models.FeatureSupportLevelID{"4.19": {idPrimaryIPv6}},
		},
		{
			id: models.FeatureSupportLevelIDSINGLENODEEXPANSION, since: "4.11", notForBefore: oldMainframe,
			special: onMainframe,
			notOn:   platforms{models.PlatformTypeNutanix, models.PlatformTypeVsphere},
		},
		{
			id: arbiter, since: "4.19", levels: map[string]models.SupportLevel{"4.19": models.SupportLevelTechPreview},
			onlyOn: platforms{models.PlatformTypeBaremetal, models.PlatformTypeNone},
			special: func(q Query) (models.SupportLevel, models.IncompatibilityReason, bool) {
				v, ok := parseMinor(q.Version)
				return models.SupportLevelUnavailable, models.IncompatibilityReasonPlatform,
					q.Platform == models.PlatformTypeNone && (!ok || v.before("4.22"))
			},
			against:       ids{nutanix, vSphere, externalKind, oracleCloud},
			againstBefore: map[string][]models.FeatureSupportLevelID{"4.22": {noPlatform}},
		},
		{
			id: idTNF, since: "4.20", onlyOn: platforms{models.PlatformTypeBaremetal, models.PlatformTypeNone},
			levels: map[string]models.SupportLevel{"4.20": models.SupportLevelTechPreview,
				"4.21": models.SupportLevelTechPreview},
			against: ids{nutanix, vSphere, externalKind, oracleCloud},
		},
		{
			id: largeHA, since: "4.18", onlyOn: platforms{models.PlatformTypeBaremetal, models.PlatformTypeNone,
				models.PlatformTypeExternal},
			notFor: archs{arm, ibmZ, power, multi}, against: ids{nutanix, vSphere},
		},
		{id: models.FeatureSupportLevelIDCUSTOMMANIFEST},
		{id: models.FeatureSupportLevelIDMINIMALISO, notFor: archs{ibmZ}},
		{
			id: models.FeatureSupportLevelIDFULLISO, against: ids{oracleCloud},
			special: func(q Query) (models.SupportLevel, models.IncompatibilityReason, bool) {
				return models.SupportLevelUnavailable, models.IncompatibilityReasonOciExternalIntegrationDisabled,
					q.Platform == models.PlatformTypeExternal && q.External == oracle
			},
		},
	}
}

func networking() []feature {
	return []feature{
		{
			id: vipAllocation, until: "4.15", normal: models.SupportLevelDevPreview,
			notOn:   platforms{models.PlatformTypeExternal},
			against: ids{singleNode, oracleCloud, noPlatform, externalKind, userBalancer},
		},
		{
			id: clusterManaged, notOn: platforms{models.PlatformTypeExternal}, notFor: archs{ibmZ, power},
			notForBefore: map[models.ArchitectureSupportLevelID]string{arm: "4.11"},
			against:      ids{singleNode, userManaged, oracleCloud, noPlatform, externalKind},
		},
		{id: userManaged, notOn: platforms{models.PlatformTypeNutanix}, against: ids{clusterManaged, nutanix,
			bareMetal, userBalancer}},
		{
			id: platManaged, normal: models.SupportLevelUnsupported, against: ids{bareMetal, vSphere, nutanix},
			special: func(q Query) (models.SupportLevel, models.IncompatibilityReason, bool) {
				if q.Platform == models.PlatformTypeExternal || q.Platform == models.PlatformTypeNone {
					return models.SupportLevelSupported, "", true
				}
				return models.SupportLevelUnsupported, models.IncompatibilityReasonPlatform, true
			},
		},
		{id: dualStack, against: ids{userBalancer},
			againstBefore: map[string][]models.FeatureSupportLevelID{"4.13": {vSphere}}},
		{id: dualStackVIPs, since: "4.12", notOnOracle: true, against: ids{oracleCloud, userBalancer}},
		{
			id: idPrimaryIPv6, since: "4.12", normal: models.SupportLevelTechPreview,
			notOn: platforms{models.PlatformTypeNutanix, models.PlatformTypeVsphere,
				models.PlatformTypeExternal},
			against:       ids{userBalancer, externalKind, oracleCloud, nutanix, vSphere},
			againstBefore: map[string][]models.FeatureSupportLevelID{"4.19": {singleNode}},
		},
		{
			id: userBalancer, since: "4.16",
			against: ids{externalKind, oracleCloud, noPlatform, nutanix, userManaged, vipAllocation, dualStack,
				dualStackVIPs, singleNode, idPrimaryIPv6},
		},
	}
}

// networkTypes returns the network plug-ins. A cluster has one of them.
func networkTypes() []feature {
	all := []feature{
		{id: models.FeatureSupportLevelIDOVNNETWORKTYPE}, {id: models.FeatureSupportLevelIDSDNNETWORKTYPE,
			until: "4.15"},
		{id: idCilium}, {id: idCalico}, {id: idCiscoACI}, {id: idNoNetwork},
	}
	for i := range all {
		for _, other := range all {
			if other.id != all[i].id {
				all[i].against = append(all[i].against, other.id)
			}
		}
	}
	return all
}

func platformTable() []feature {
	return []feature{
		{id: bareMetal, against: ids{platManaged, userManaged}},
		{id: noPlatform, against: ids{vipAllocation, clusterManaged, userBalancer},
			againstBefore: map[string][]models.FeatureSupportLevelID{"4.22": {arbiter}}},
		{
			id: nutanix, since: "4.11", levels: map[string]models.SupportLevel{"4.11": models.SupportLevelDevPreview},
			notFor: archs{ibmZ, power, arm},
			against: ids{
				singleNode, arbiter, idTNF, userManaged, models.FeatureSupportLevelIDLVM,
				models.FeatureSupportLevelIDMCE, models.FeatureSupportLevelIDCNV, platManaged,
				models.FeatureSupportLevelIDMTV, largeHA, userBalancer, models.FeatureSupportLevelIDOSC,
				models.FeatureSupportLevelIDNMSTATE, idPrimaryIPv6,
			},
		},
		{
			id: vSphere, notFor: archs{ibmZ, power},
			against: ids{
				singleNode, arbiter, idTNF, models.FeatureSupportLevelIDLVM, platManaged,
				models.FeatureSupportLevelIDCNV, models.FeatureSupportLevelIDMTV,
				largeHA, models.FeatureSupportLevelIDOSC, idPrimaryIPv6,
			},
			againstBefore: map[string][]models.FeatureSupportLevelID{"4.13": {dualStack}},
		},
		{
			id: oracleCloud, since: "4.14", notFor: archs{ibmZ, power},
			against: ids{
				arbiter, idTNF, clusterManaged, vipAllocation, dualStackVIPs, models.FeatureSupportLevelIDFULLISO,
				userBalancer,
				models.FeatureSupportLevelIDNMSTATE, models.FeatureSupportLevelIDODF,
				models.FeatureSupportLevelIDOPENSHIFTAI, idPrimaryIPv6,
			},
		},
		{
			id: externalKind, since: "4.14",
			against: ids{arbiter, idTNF, clusterManaged, vipAllocation, userBalancer,
				models.FeatureSupportLevelIDNMSTATE, idPrimaryIPv6},
		},
	}
}
