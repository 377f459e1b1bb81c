package engine

import (
	"slices"
	"strings"

	"github.com/go-openapi/swag/conv"
	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/inventory"
	"landfall/appliance/sentence"
	"landfall/ignition"
	"landfall/store"
)

// CheckNetworkBoot refuses with kind NotFound to boot the discovery image on a machine of an
// infra-env that was installed and is to start from its disk. A machine that isn't known yet may
// boot it.
func (e *Engine) CheckNetworkBoot(infraEnvID, mac string) error {
	return e.options.DB.View(func(tx *store.Tx) error {
		return hostRows.Each(tx, infraEnvID+"/", func(key string, h *hostRecord) error {
			if !startsFromDisk(h) {
				return nil
			}
			reports, err := loadReports(tx, key)
			if err != nil {
				return err
			}
			facts, err := inventory.Parse(reports)
			if err != nil || facts.Inventory == nil || !hasCard(facts.Inventory, mac) {
				return err
			}
			return notFound("The host %s with the MAC address %s starts from its disk: it is %s.", h.API.ID, mac,
				*h.API.Status)
		})
	})
}

func hasCard(inv *models.Inventory, mac string) bool {
	return slices.ContainsFunc(inv.Interfaces,
		func(nic *models.Interface) bool { return strings.EqualFold(nic.MacAddress, mac) })
}

// startsFromDisk tells whether a host's disk holds the installed system.
func startsFromDisk(h *hostRecord) bool {
	switch conv.Value(h.API.Status) {
	case models.HostStatusInstalled, models.HostStatusAddedToExistingCluster,
		models.HostStatusInstallingPendingUserAction:
		return true
	case models.HostStatusInstallingInProgress:
		return h.API.Progress != nil && slices.Contains([]models.HostStage{
			models.HostStageRebooting, models.HostStageConfiguring, models.HostStageWaitingForIgnition,
			models.HostStageJoined, models.HostStageDone,
		}, h.API.Progress.CurrentStage)
	}
	return false
}

// StaticNetworkFiles returns the static network of an infra-env's machines as the Assisted
// Installer lays it out, with paths relative to the root; none if they all use DHCP.
func (e *Engine) StaticNetworkFiles(infraEnvID string) ([]ignition.File, error) {
	row, err := e.infraEnvRow(infraEnvID)
	if err != nil {
		return nil, err
	}
	config, err := e.discoveryConfig(row, "")
	if err != nil || len(config.StaticNetwork) == 0 {
		return nil, err
	}
	files, err := ignition.NetworkFiles(config.StaticNetwork, config.OpenshiftVersion)
	if err != nil {
		return nil, &Error{Kind: Invalid, Reason: sentence.New(err), Err: err}
	}
	return files, nil
}
