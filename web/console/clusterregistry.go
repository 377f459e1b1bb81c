package console

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/engine"
	"landfall/appliance/registry"
	"landfall/appliance/registry/absence"
	"landfall/web/operation"
	webregistry "landfall/web/registry"
)

// ClusterRegistryRoute is the route of what a cluster needs of the appliance's registry.
const ClusterRegistryRoute = clusterPath + "/registry"

// ClusterRegistry says whether a cluster depends on the appliance's registry, and when that was
// away.
type ClusterRegistry struct {
	Depends bool   `json:"depends"`
	Host    string `json:"host,omitempty"` // name:port of the registry
	// Message is a sentence if the cluster depends on the registry.
	Message string `json:"message,omitempty"`
	// Missing are the media that are away now.
	Missing  []MissingMedium   `json:"missing_media"`
	Absences []absence.Absence `json:"absences"` // the latest first
}

// MissingMedium is a medium that the registry knows and that is not there.
type MissingMedium struct {
	Label string    `json:"label"`
	Since time.Time `json:"since"`
}

// ClusterRegistryOperations returns the operation on what a cluster needs of the appliance's
// registry, which may be nil. read returns an error for an unknown cluster.
func ClusterRegistryOperations(server *webregistry.Server, dependents func() ([]registry.Dependent, error),
	log *absence.Log, read func(clusterID string) (engine.InstallSource, error)) []operation.Operation {
	return []operation.Operation{{ID: "getClusterRegistry", Method: http.MethodGet, Path: ClusterRegistryRoute,
		Access:  operation.For(access.Viewer),
		Summary: "Show whether a cluster depends on the appliance's registry, and when that was away",
		Status:  http.StatusOK, Answer: ClusterRegistry{}, Errors: []int{404},
		Handler: func(c echo.Context) error {
			if _, err := read(c.Param("cluster_id")); err != nil {
				return err
			}
			c.Response().Header().Set(echo.HeaderCacheControl, "no-store")
			shown, err := clusterRegistry(server, dependents, log, c.Param("cluster_id"))
			return answer(c, shown, err)
		}}}
}

func clusterRegistry(server *webregistry.Server, dependents func() ([]registry.Dependent, error), log *absence.Log,
	id string) (*ClusterRegistry, error) {
	shown := &ClusterRegistry{Host: server.Host(), Missing: []MissingMedium{}}
	all, err := dependents()
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		shown.Depends = shown.Depends || d.ID == id
	}
	if shown.Absences, err = log.Of(id); err != nil || !shown.Depends {
		return shown, err
	}
	var sentences []string
	for _, m := range server.Status().Media {
		if !m.Present && m.Staging.State != registry.StageWhole {
			shown.Missing = append(shown.Missing, MissingMedium{m.Label, m.Since})
			sentences = append(sentences, fmt.Sprintf("Its medium %s is missing since %s UTC.", m.Label,
				m.Since.UTC().Format(time.DateTime)))
		}
	}
	if len(shown.Absences) > 0 {
		last := shown.Absences[0]
		sentences = append(sentences, fmt.Sprintf("It was away from %s to %s UTC.", last.From.Format(time.DateTime),
			last.To.Format(time.DateTime)))
	}
	shown.Message = strings.Join(append([]string{"The nodes pull images from this appliance's registry, " + shown.Host +
		". Hand it over before the appliance leaves."}, sentences...), " ")
	return shown, nil
}
