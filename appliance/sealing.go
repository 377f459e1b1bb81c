package appliance

import "context"

// RotateDataKey seals everything in the data directory with a new data key.
func (a *Appliance) RotateDataKey(ctx context.Context) error {
	return a.keys.Rotate(ctx, a.siteKey, a.db)
}

// resumeRotation completes a rotation that a stop interrupted. Its failure does not stop the
// appliance, because the older key still works.
func (a *Appliance) resumeRotation(ctx context.Context) error {
	if err := a.keys.Resume(ctx, a.siteKey, a.db); err != nil && ctx.Err() == nil {
		a.log.Error("The rotation of the data key could not be completed; it continues at the next start.",
			"error", err)
	}
	return nil
}
