/** The control centre's REST API, /api/v1. */

const BASE = "api/v1/";
const TOKEN = "vgc-token";

/** A refusal of the API, or of the network: `kind` and `message` are for people. */
export class ApiError extends Error {
  constructor(status, kind, text) {
    super(text);
    this.status = status;
    this.kind = kind;
  }
}

let askForToken = null;
let asking = null;

/** `ask(text)` resolves to a token, or null when the person gives up. */
export function onUnauthorized(ask) {
  askForToken = ask;
}

export const token = () => sessionStorage.getItem(TOKEN) ?? "";

export function setToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/** A query string of what is set. */
export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(set.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}

/**
 * One request; asks for a token and tries again when the server wants one.
 * @throws {ApiError}
 */
async function send(method, path, body, signal) {
  const used = token();
  const response = await attempt(method, path, body, signal, used);
  if (response.status !== 401 || !askForToken) return response;
  const { message } = await refusal(response);
  if (used === token()) {
    asking ??= askForToken(message).finally(() => {
      asking = null;
    });
    const given = await asking;
    if (given === null) throw new ApiError(401, "denied", message);
  }
  return attempt(method, path, body, signal, token());
}

async function attempt(method, path, body, signal, secret) {
  const headers = secret ? { authorization: `Bearer ${secret}` } : {};
  if (body !== undefined) headers["content-type"] = "application/json";
  try {
    return await fetch(BASE + path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "the control centre does not answer");
  }
}

async function refusal(response) {
  try {
    const { error } = await response.json();
    return new ApiError(response.status, error.kind, error.text);
  } catch {
    return new ApiError(
      response.status,
      "failed",
      `the control centre answered ${response.status} ${response.statusText}`,
    );
  }
}

async function json(method, path, body, signal) {
  const response = await send(method, path, body, signal);
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : response.json();
}

export const get = (path, values = {}, signal = undefined) => json("GET", path + query(values), undefined, signal);
export const post = (path, body = {}) => json("POST", path, body);
export const put = (path, body) => json("PUT", path, body);
export const patch = (path, body) => json("PATCH", path, body);
export const remove = (path) => json("DELETE", path);

/** Downloads what a path answers, with the token, under the name that the server gives or `name`. */
export async function download(path, values, name) {
  const response = await send("GET", path + query(values));
  if (!response.ok) throw await refusal(response);
  const given = /filename="?([\w.-]+)"?/.exec(response.headers.get("content-disposition") ?? "");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = given ? given[1] : name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** Bytes of a base64 text. */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/** Base64 of bytes. */
export function toBase64(data) {
  let text = "";
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}
