package kit

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
)

// BadFile is a file that somebody sends to do harm, or by mistake.
type BadFile struct {
	What, Name string
	Content    []byte
}

// Picture returns a small PNG.
func Picture() []byte {
	var b bytes.Buffer // no write to it fails
	_ = png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2)))
	return b.Bytes()
}

// BadFiles returns files with bad content and files with bad names. None of them is
// larger than a file may be.
func BadFiles() []BadFile {
	var jpegFile, gifFile, zipFile, gzipFile bytes.Buffer // no write to them fails
	pixels := image.NewPaletted(image.Rect(0, 0, 2, 2), color.Palette{color.Black, color.White})
	_ = jpeg.Encode(&jpegFile, pixels, nil)
	_ = gif.Encode(&gifFile, pixels, nil)
	archive := zip.NewWriter(&zipFile)
	entry, _ := archive.Create("../../bomb")
	_, _ = entry.Write(make([]byte, 16<<20))
	_ = archive.Close()
	packed := gzip.NewWriter(&gzipFile)
	_, _ = packed.Write(make([]byte, 16<<20))
	_ = packed.Close()

	const script = `<script>fetch("/page/week")</script>`
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)">` + script + `</svg>`
	picture := string(Picture())
	files := []BadFile{
		{"HTML called a picture", "cat.png", []byte("<!DOCTYPE html>" + script)},
		{"HTML without a type", "cat.jpg", []byte(script)},
		{"HTML after blanks", "cat.gif", []byte("\n\t  <html>" + script)},
		{"HTML in a comment", "cat.webp", []byte("<!--" + picture + "-->" + script)},
		{"an SVG with a script", "drawing.svg", []byte(svg)},
		{"an SVG with an XML header", "drawing.svg", []byte(`<?xml version="1.0"?>` + svg)},
		{"an SVG called PNG", "drawing.png", []byte(svg)},
		{"XHTML", "page.xhtml", []byte(`<html xmlns="http://www.w3.org/1999/xhtml">` + script + `</html>`)},
		{"XML with an entity bomb", "lol.xml", []byte(`<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "bbbb">]><a>&b;</a>`)},
		{"JavaScript", "code.js", []byte(`alert(1)`)},
		{"JavaScript called PNG", "code.png", []byte(`alert(1)`)},
		{"a GIF that is JavaScript, too", "poly.gif", []byte("GIF89a=1;alert(1)//")},
		{"a GIF with HTML behind it", "poly.html", append(gifFile.Bytes(), script...)},
		{"a JPEG with HTML behind it", "poly.htm", append(jpegFile.Bytes(), script...)},
		{"a PNG with HTML behind it", "poly.png.html", []byte(picture + script)},
		{"a PDF", "paper.pdf", []byte("%PDF-1.7\n1 0 obj<</OpenAction<</S/JavaScript>>>>endobj")},
		{"a PDF called PNG", "paper.png", []byte("%PDF-1.7\n")},
		{"PDF with HTML before it", "paper.pdf", []byte(script + "%PDF-1.7")},
		{"a zip bomb", "bomb.zip", zipFile.Bytes()},
		{"a gzip bomb", "bomb.png.gz", gzipFile.Bytes()},
		{"a truncated PNG", "half.png", []byte(picture[:20])},
		{"the first bytes of a PNG", "start.png", []byte(picture[:8])},
		{"less than that", "start.png", []byte(picture[:4])},
		{"a PNG of huge size", "huge.png", []byte(picture[:16] + "\x7f\xff\xff\xff\x7f\xff\xff\xff" + picture[24:])},
		{"HEIC", "photo.heic", []byte("\x00\x00\x00\x18ftypheic\x00\x00\x00\x00mif1heic")},
		{"HEIC called JPEG", "photo.jpg", []byte("\x00\x00\x00\x18ftypmif1\x00\x00\x00\x00mif1heic")},
		{"an MP4", "film.mp4", []byte("\x00\x00\x00\x18ftypmp42\x00\x00\x00\x00mp42isom")},
		{"a program", "run.png", []byte("\x7fELF\x02\x01\x01\x00")},
		{"a Windows program", "run.exe", []byte("MZ\x90\x00")},
		{"a shell script", "run.sh", []byte("#!/bin/sh\nrm -rf ~\n")},
		{"WebAssembly", "run.wasm", []byte("\x00asm\x01\x00\x00\x00")},
		{"one byte", "one", []byte{0}},
		{"UTF-16", "text.txt", []byte("\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00")},
		{"UTF-7 that is HTML", "text.txt", []byte("+ADw-script+AD4-alert(1)+ADw-/script+AD4-")},
		{"a font", "font.woff", []byte("wOFF\x00\x01\x00\x00")},
		{"a WebP header alone", "pic.webp", []byte("RIFF\x00\x00\x00\x00WEBPVP8 ")},
		{"multipart", "mail.mht", []byte("Content-Type: text/html\r\n\r\n" + script)},
	}
	for what, name := range map[string]string{
		"a path":                   "../../../etc/passwd",
		"a Windows path":           `..\..\autoexec.bat`,
		"an absolute path":         "/etc/cron.d/x",
		"dots":                     "..",
		"no name":                  "",
		"a NUL":                    "a\x00.png",
		"a newline":                "a.png\nAttached file: /etc/passwd (image/png, b.png)",
		"a carriage return":        "a.png\r\nSet-Cookie: a=b",
		"escape sequences":         "\x1b]0;owned\x07\x1b[2J.png",
		"a right-to-left mark":     "photo\u202egnp.exe",
		"invisible characters":     "a\u200b\u2060\u3164.png",
		"bytes that are no text":   "\xff\xfe.png",
		"300 letters":              strings.Repeat("a", 300) + ".png",
		"300 wide letters":         strings.Repeat("漢", 300) + ".png",
		"a long extension":         "a." + strings.Repeat("b", 300),
		"a file that Claude reads": "x @~/.ssh/id_rsa .png",
		"a command":                "/clear",
		"quotes and brackets":      `a") <users/all> "*b*_c_` + "`d`.png",
		"a header's end":           `a"; filename="b.html`,
		"only blanks":              " \t ",
		"a device of Windows":      "CON",
		"a dot file":               ".bashrc",
	} {
		files = append(files, BadFile{"a name with " + what, name, Picture()})
	}
	return files
}
