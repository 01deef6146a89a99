package space

import (
	"bytes"
	"image"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"

	"gchat-hooks/e2e/kit"
)

// The pictures of docs/page are taken with
//
//	GCHAT_SCREENSHOTS=/tmp/pictures go test -run TestPage_Pictures ./gchat/space
//
// and made smaller with pngquant. Each has light beside dark.
func TestPage_Pictures(t *testing.T) {
	dir := os.Getenv("GCHAT_SCREENSHOTS")
	if dir == "" {
		t.Skip("GCHAT_SCREENSHOTS names no folder")
	}
	ctx := newBrowser(t)
	d := newShopDesk(t)
	navigate(t, ctx, d.s.PageURL(d.base))
	waitUntil(t, ctx, isLiveScript)
	d.sendPicture(ctx)
	kit.NoError(t, os.MkdirAll(dir, 0o755))
	for _, view := range d.views {
		for _, device := range []string{"phone", "desktop"} {
			emulatePhone(t, ctx)
			if device == "desktop" {
				runActions(t, ctx, chromedp.EmulateViewport(1280, 800))
			}
			d.openView(ctx, view)
			var pictures []image.Image
			for _, scheme := range []string{"light", "dark"} {
				prefer(t, ctx, "prefers-color-scheme", scheme, "prefers-reduced-motion", "reduce")
				content, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
				kit.NoError(t, err)
				picture, err := png.Decode(bytes.NewReader(content))
				kit.NoError(t, err)
				pictures = append(pictures, picture)
			}
			var content bytes.Buffer
			kit.NoError(t, png.Encode(&content, joinPictures(pictures[0], pictures[1])))
			path := filepath.Join(dir, view.name+"-"+device+".png")
			kit.NoError(t, os.WriteFile(path, content.Bytes(), 0o644))
		}
	}

	// docs/page-phone.png: one question, answered
	emulatePhone(t, ctx)
	preferScheme(t, ctx, "light")
	desk := newCardDesk(t)
	navigate(t, ctx, desk.s.PageURL(desk.base))
	question := askQuestions(deploymentQuestion)
	question.SessionName = "web-shop"
	thread := openNew(t, ctx, desk, question)
	click(t, ctx, `[data-option="2"]`)
	desk.wantTap("2")
	desk.end(thread, answerWith("Rolling deployment"))
	waitUntil(t, ctx, hasState("answered"))
	screenshot(t, ctx, "page-phone")
}

// joinPictures puts one picture to the right of another.
func joinPictures(left, right image.Image) image.Image {
	edge := left.Bounds().Dx()
	joined := image.NewRGBA(image.Rect(0, 0, edge+right.Bounds().Dx(), left.Bounds().Dy()))
	draw.Draw(joined, left.Bounds(), left, image.Point{}, draw.Src)
	draw.Draw(joined, right.Bounds().Add(image.Pt(edge, 0)), right, image.Point{}, draw.Src)
	return joined
}
