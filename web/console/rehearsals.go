package console

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
)

// Rehearsals plays installations with simulated hosts; its errors are fit for problem.From.
type Rehearsals interface {
	// Start begins a rehearsal in the background.
	Start(ctx context.Context, clusterID string, wanted RehearsalRequest) (*Rehearsal, error)
	// Rehearsal returns one of a cluster as it is now.
	Rehearsal(clusterID, id string) (*Rehearsal, error)
}

// RehearsalRequest says which hosts there will be, where none have reported and no folder or static
// network tells of them.
type RehearsalRequest struct {
	ControlPlanes int `json:"control_planes,omitempty"`
	Workers       int `json:"workers,omitempty"`
	Arbiters      int `json:"arbiters,omitempty"`
}

// Verdicts of the steps of a rehearsal.
const (
	StepProven  = "proven"
	StepWarning = "warning"
	StepFailed  = "failed"
)

// Rehearsal is an installation that is or was played.
type Rehearsal struct {
	ID        string          `json:"id"`
	ClusterID string          `json:"cluster_id"`
	Cluster   string          `json:"cluster"`
	Release   string          `json:"release"`
	Shape     string          `json:"shape"` // which hosts, and where that is known from
	State     string          `json:"state"` // running or done
	Doing     string          `json:"doing,omitempty"`
	Started   time.Time       `json:"started"`
	Seconds   float64         `json:"seconds"`
	Passed    bool            `json:"passed"`
	Steps     []RehearsalStep `json:"steps"`
	// NotProven is what only real hosts can show.
	NotProven []string `json:"not_proven"`
}

// RehearsalStep is one thing that was tried.
type RehearsalStep struct {
	Name    string  `json:"name"`
	Verdict string  `json:"verdict"`
	Seconds float64 `json:"seconds"`
	Said    string  `json:"said"`
	Do      string  `json:"do,omitempty"` // what a person does about it
}

type rehearsals struct{ rehearsals Rehearsals }

func (r rehearsals) register(router *echo.Echo) {
	router.POST(BasePath+"/clusters/:cluster_id/rehearsals", func(c echo.Context) error {
		var wanted RehearsalRequest
		if err := read(c, &wanted); err != nil {
			return err
		}
		started, err := r.rehearsals.Start(c.Request().Context(), c.Param("cluster_id"), wanted)
		if err != nil {
			return err
		}
		return c.JSON(http.StatusAccepted, started)
	})
	router.GET(BasePath+"/clusters/:cluster_id/rehearsals/:id", func(c echo.Context) error {
		found, err := r.rehearsals.Rehearsal(c.Param("cluster_id"), c.Param("id"))
		if err != nil {
			return err
		}
		return answer(c, found)
	})
}
