/** Client of the control centre's REST API, /api/v1. */

/** @import { Answer, Body, ErrorAnswer, Method, Path, Query } from "./messages.d.ts" */

const BASE = "api/v1/";
const TOKEN = "vgc-token";

/** Error of a request: a refusal of the API, or no answer; `kind` and `message` are for people. */
export class ApiError extends Error {
  /**
   * @param {number} status of HTTP; 0: no answer came
   * @param {string} kind
   * @param {string} text
   */
  constructor(status, kind, text) {
    super(text);
    this.status = status;
    this.kind = kind;
  }
}

/** @type {((text: string) => Promise<string | null>) | null} */
let askForToken = null;
/** @type {Promise<string | null> | null} */
let asking = null;

/**
 * Sets the function that asks for a token when the server wants one.
 * @param {(text: string) => Promise<string | null>} ask resolves to a token, or null if the person cancels
 */
export function onUnauthorized(ask) {
  askForToken = ask;
}

export const token = () => sessionStorage.getItem(TOKEN) ?? "";

/** @param {string} value */
export function setToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

/**
 * Query string of the values that are set.
 * @param {{ [name: string]: string | number | null | undefined }} values
 */
export function query(values) {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(set.map(([key, value]) => [key, String(value)])).toString();
  return text ? `?${text}` : "";
}

/**
 * Sends a request; asks for a token and tries again if the server wants one.
 * @param {Method} method
 * @param {string} path
 * @param {object} [body]
 * @param {AbortSignal} [signal]
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

/**
 * @param {Method} method
 * @param {string} path
 * @param {object | undefined} body
 * @param {AbortSignal | undefined} signal
 * @param {string} secret
 */
async function attempt(method, path, body, signal, secret) {
  /** @type {{ [name: string]: string }} */
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
    if (error instanceof Error && error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "the control centre does not answer");
  }
}

/** @param {Response} response */
async function refusal(response) {
  try {
    const { error } = /** @type {ErrorAnswer} */ (await response.json());
    return new ApiError(response.status, error.kind, error.text);
  } catch {
    return new ApiError(
      response.status,
      "failed",
      `the control centre answered ${response.status} ${response.statusText}`,
    );
  }
}

/**
 * @param {Method} method
 * @param {string} path
 * @param {object} [body]
 * @param {AbortSignal} [signal]
 */
async function json(method, path, body, signal) {
  const response = await send(method, path, body, signal);
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? null : response.json();
}

/**
 * @template {Path<"GET">} P
 * @param {P} path
 * @param {Query<"GET", P>} values
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer<"GET", P>>}
 */
export const get = (path, values = {}, signal = undefined) => json("GET", path + query(values), undefined, signal);

/**
 * @template {Path<"POST">} P
 * @param {P} path
 * @param {Body<"POST", P>} body
 * @returns {Promise<Answer<"POST", P>>}
 */
export const post = (path, body = {}) => json("POST", path, body);

/**
 * @template {Path<"PUT">} P
 * @param {P} path
 * @param {Body<"PUT", P>} body
 * @returns {Promise<Answer<"PUT", P>>}
 */
export const put = (path, body) => json("PUT", path, body);

/**
 * @template {Path<"PATCH">} P
 * @param {P} path
 * @param {Body<"PATCH", P>} body
 * @returns {Promise<Answer<"PATCH", P>>}
 */
export const patch = (path, body) => json("PATCH", path, body);

/**
 * @template {Path<"DELETE">} P
 * @param {P} path
 * @returns {Promise<Answer<"DELETE", P>>}
 */
export const remove = (path) => json("DELETE", path);

/**
 * Downloads the answer of a path, with the token, as a file with the name that the server gives, or `name`.
 * @template {Path<"GET">} P
 * @param {P} path
 * @param {Query<"GET", P>} values
 * @param {string} name
 */
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

/**
 * Bytes of a base64 text.
 * @param {string} text
 */
export function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

/**
 * Base64 of bytes.
 * @param {Uint8Array} data
 */
export function toBase64(data) {
  let text = "";
  for (let at = 0; at < data.length; at += 8192) text += String.fromCharCode(...data.subarray(at, at + 8192));
  return btoa(text);
}
