package engine

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/openshift/assisted-service/models"

	"landfall/appliance/engine/event"
	"landfall/appliance/engine/record"
	"landfall/store"
)

// imageCodeLength is the length of an image code. Each character has 5 bits, and 80 bits cannot be
// guessed over a network.
const imageCodeLength = 16

// newImageCode returns a random code of lower-case base32 characters.
func newImageCode() string {
	return strings.ToLower(rand.Text()[:imageCodeLength])
}

// CodeOfImage returns the code of an infra-env's short image URL and its expiry. The code is "" if
// it was revoked or has expired. An expiry of zero means that the code does not expire.
func (e *Engine) CodeOfImage(infraEnvID string) (code string, expires time.Time, err error) {
	row, err := record.ReadInfraEnv(e.options.DB, infraEnvID)
	if err != nil || row.Code.IsExpired(e.options.Clock.Now()) {
		return "", time.Time{}, err
	}
	return row.Code.Code, row.Code.Expires, nil
}

// ImageCode returns the infra-env of the code in a short image URL. Upper and lower case are
// equivalent. A revoked, expired or unknown code is an error of kind NotFound.
func (e *Engine) ImageCode(_ context.Context, code string) (infraEnvID string, err error) {
	code = strings.ToLower(code)
	missing := notFound("There is no image at this address: its code was revoked or replaced, or never existed. " +
		"Copy the infra-env's current short URL.")
	if len(code) != imageCodeLength || strings.Contains(code, "/") {
		return "", missing
	}
	err = e.options.DB.View(func(tx *store.Tx) error {
		if err := record.ImageCodes.Keys(tx, code+"/", func(key string) error {
			infraEnvID = key[len(code)+1:]
			return store.ErrStop
		}); err != nil {
			return err
		}
		if infraEnvID == "" {
			return missing
		}
		row, err := record.InfraEnvs.Get(tx, infraEnvID)
		if err == nil && row.Code.IsExpired(e.options.Clock.Now()) {
			err = notFound("The image address of infra-env %s expired at %s; renew its short URL.", *row.API.Name,
				row.Code.Expires.Format(time.RFC3339))
		}
		return err
	})
	return infraEnvID, err
}

// RenewImageCode replaces the code of an infra-env's short image URL. The new code is valid for the
// given time; 0 means forever. The previous code becomes invalid immediately.
func (e *Engine) RenewImageCode(ctx context.Context, infraEnvID string,
	validFor time.Duration) (code string, expires time.Time, err error) {
	if validFor < 0 {
		return "", time.Time{},
			invalid("A short URL can't be valid for %s; enter a positive duration, or 0 for no expiry.", validFor)
	}
	code = newImageCode()
	err = e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(infraEnvID)
		if err != nil {
			return err
		}
		if expires = (time.Time{}); validFor > 0 {
			expires = c.now.Add(validFor)
		}
		if err := c.setImageCode(row, code, expires); err != nil {
			return err
		}
		return c.infraEnvEvent(row, event.ImageURLUpdated, models.EventSeverityInfo,
			"Infra-env %s has a new short image URL; the previous one is no longer valid.", *row.API.Name)
	})
	return code, expires, err
}

// firstImageCode creates the code of an infra-env from an earlier release of the appliance, which
// had no short URLs.
func (e *Engine) firstImageCode(ctx context.Context, infraEnvID string) error {
	code := newImageCode()
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(infraEnvID)
		if err != nil || row.Code.Given {
			return err
		}
		return c.setImageCode(row, code, time.Time{})
	})
}

// RevokeImageCode invalidates the code of an infra-env's short image URL. An infra-env without a
// code is not an error.
func (e *Engine) RevokeImageCode(ctx context.Context, infraEnvID string) error {
	return e.update(ctx, func(c *change) error {
		row, err := c.infraEnv(infraEnvID)
		if err != nil || row.Code.Code == "" {
			return err
		}
		if err := c.setImageCode(row, "", time.Time{}); err != nil {
			return err
		}
		return c.infraEnvEvent(row, event.ImageURLUpdated, models.EventSeverityInfo,
			"The short image URL of infra-env %s was revoked.", *row.API.Name)
	})
}

func (c *change) setImageCode(row *record.InfraEnv, code string, expires time.Time) error {
	if err := c.dropImageCode(row); err != nil {
		return err
	}
	row.Code = record.ImageCode{Code: code, Expires: expires, Given: true}
	c.saveInfraEnv(row)
	if code == "" {
		return nil
	}
	return record.ImageCodes.Add(c.tx, code+"/"+row.API.ID.String())
}

func (c *change) dropImageCode(row *record.InfraEnv) error {
	if row.Code.Code == "" {
		return nil
	}
	return record.ImageCodes.Remove(c.tx, row.Code.Code+"/"+row.API.ID.String())
}
