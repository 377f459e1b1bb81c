package console

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"landfall/appliance/access"
	"landfall/appliance/settings"
	"landfall/web/operation"
	"landfall/web/recording"
)

// Routes of the settings of the site, and of the list of what is still missing.
const (
	SettingsRoute = BasePath + "/settings"
	SetupRoute    = BasePath + "/setup"
)

// Settings shows and changes the settings of the site.
type Settings interface {
	// Show returns the settings without secrets.
	Show() (*settings.Settings, error)
	// Change changes the settings in a request and returns all of them.
	Change(ctx context.Context, wanted settings.Change) (*settings.Settings, error)
	// AddRelease adds a release, which it reads through the mirror.
	AddRelease(ctx context.Context, wanted settings.NewRelease) (*settings.Release, error)
	// RemoveRelease removes a release that was added.
	RemoveRelease(ctx context.Context, version, architecture string) error
	// Setup returns what the site needs before its first installation.
	Setup() (*settings.Setup, error)
}

type siteSettings struct{ settings Settings }

// SettingsOperations returns the operations on the settings of the site.
func SettingsOperations(of Settings) []operation.Operation {
	s := siteSettings{of}
	return []operation.Operation{
		{ID: "getSettings", Method: http.MethodGet, Path: SettingsRoute, Access: operation.For(access.Viewer).OfAll(),
			Handler: s.show,
			Summary: "Show the settings of the site, without secrets",
			Status:  http.StatusOK, Answer: settings.Settings{}},
		{ID: "changeSettings", Method: http.MethodPatch, Path: SettingsRoute,
			Access: operation.For(access.Administrator), Handler: s.change, DryRun: true,
			Summary: "Change settings of the site; absent settings keep their values, empty ones are removed",
			Body:    settings.Change{},
			Status:  http.StatusOK, Answer: settings.Settings{}, Errors: []int{400, 409}},
		{ID: "addRelease", Method: http.MethodPost, Path: SettingsRoute + "/releases",
			Access: operation.For(access.Administrator), Handler: s.add, DryRun: true,
			Summary: "Add a release by its pull spec, and allow it",
			Body:    settings.NewRelease{},
			Status:  http.StatusCreated, Answer: settings.Release{}, Errors: []int{400, 409, 503}},
		{ID: "removeRelease", Method: http.MethodDelete, Path: SettingsRoute + "/releases/:version/:architecture",
			Access: operation.For(access.Administrator), Handler: s.remove, DryRun: true,
			Summary: "Remove a release that was added",
			Status:  http.StatusNoContent, Errors: []int{404, 409}},
		{ID: "getSetup", Method: http.MethodGet, Path: SetupRoute, Access: operation.For(access.Viewer).OfAll(),
			Handler: s.setup,
			Summary: "Show what the site needs before its first installation",
			Status:  http.StatusOK, Answer: settings.Setup{}},
	}
}

func (s siteSettings) show(c echo.Context) error {
	shown, err := s.settings.Show()
	return answer(c, shown, err)
}

func (s siteSettings) change(c echo.Context) error {
	var wanted settings.Change
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	shown, err := s.settings.Change(c.Request().Context(), wanted)
	return answer(c, shown, err)
}

func (s siteSettings) add(c echo.Context) error {
	var wanted settings.NewRelease
	if err := operation.ReadJSON(c, &wanted); err != nil {
		return err
	}
	added, err := s.settings.AddRelease(c.Request().Context(), wanted)
	if err == nil {
		recording.Created(c.Request().Context(), "release", added.URL)
	}
	return answerWith(c, http.StatusCreated, added, err)
}

func (s siteSettings) remove(c echo.Context) error {
	return done(c, s.settings.RemoveRelease(c.Request().Context(), c.Param("version"), c.Param("architecture")))
}

func (s siteSettings) setup(c echo.Context) error {
	setup, err := s.settings.Setup()
	return answer(c, setup, err)
}
